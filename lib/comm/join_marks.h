#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "comm/job.h"

namespace dptrain {

/// Notes that this process ends by itself, with this exit code. Others that still wait for it to join then end with the
/// same code, and don't take it for a death. Does nothing if the process isn't in a job.
void note_end_before_joining(int exit_code);

/// Marks by which the processes of a job see who has begun to join it. Each process leaves a mark in the folder that
/// Open MPI's mpirun, or a launcher with PMIx, gives the job on its host; the launcher removes the folder. Nothing is
/// known of other hosts. Marks that a killed launcher has left behind belong to another job and are ignored.
class JoinMarks {
 public:
  /// Leaves the mark of this process. If there is no such folder, or it can't be written, nothing is known of any
  /// process. `launcher` is the process that launched this one on this host.
  explicit JoinMarks(int64_t launcher = launcher_pid());

  /// Notes that this process has joined, or is about to end because it can't. From then on its end is no death.
  void release() const;
  /// Notes that this process ends by itself, with this exit code, for a reason of its own.
  void note_end(int exit_code) const;

  /// What is known of the missing processes: ": process 2 is missing", or for several hosts ": on host a, 2 of 2 are
  /// present; the hosts of the job are a, b". Empty if nothing is known.
  std::string missing() const;
  /// Whether this process records the failure. This is process 0 of the job. On a host without it, or if it is missing
  /// or has died, the first process present does.
  bool speaks_for_job() const;

  struct Process {
    int number = 0;  ///< in the job
    int64_t pid = 0;
  };
  /// A process of this host that died before it was released.
  std::optional<Process> find_dead() const;
  struct Ended {
    int number = 0;  ///< in the job
    int exit_code = 0;
  };
  /// A process of this host that has ended by itself, for a reason of its own.
  std::optional<Ended> find_ended() const;
  /// The processes that have left a mark, whatever has become of them since. Nothing if there can be no marks.
  std::optional<std::set<int>> come() const;

 private:
  /// A process of this host, with the start that process_start returns; pid 0: released.
  struct Mark {
    int64_t pid = 0, start = 0;
    int exit_code = 0;  ///< of a process that ends by itself; 0: it doesn't

    bool has_died() const;
  };
  std::filesystem::path file(int process) const;
  /// Returns whether the mark could be written. Others see the whole mark or none.
  bool write(const Mark& mark) const;
  /// The marks of all processes that have left one, by number.
  std::map<int, Mark> marks() const;
  std::set<int> present() const;

  int64_t launcher_ = 0, launcher_start_ = 0;
  std::filesystem::path folder_;  ///< empty: there is none
  int processes_ = 1;
  int here_ = 0;  ///< how many processes of the job are on this host; 0: unknown
};

}  // namespace dptrain
