#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "comm/job.h"

namespace dptrain {

/// This process ends by itself before it has joined its job, if it is in one: that is no death.
void note_end_before_joining();

/// Which processes of a job have come to where they join it, as far as one that waits for the others can tell: each
/// leaves a mark in the folder that Open MPI's mpirun, or a launcher by PMIx, gives the job on its host, and removes
/// with it. Of other hosts nothing is known. What a launcher that was killed has left there is another job's.
class JoinMarks {
 public:
  /// Leaves the mark of this process. Where there is no such folder, or it can't be written, nothing is known of any.
  /// `launcher`: the process that launched this one here.
  explicit JoinMarks(int64_t launcher = launcher_pid());

  /// This process has joined, or is about to end by itself: its end is no death any more.
  void release() const;

  /// What is known of who is missing: ": process 2 is missing", or over several hosts ": of those on host a 2 of 2 are
  /// there; the hosts of the job are a, b". "" where nothing is.
  std::string missing() const;
  /// Whether this process is to leave the record of it: the first one of the job, or on any other host, or where that
  /// one is missing or has died, the first that is there.
  bool speaks_for_job() const;

  struct Process {
    int number = 0;  ///< in the job
    int64_t pid = 0;
  };
  /// One of this host that has died before it was released.
  std::optional<Process> find_dead() const;
  /// Those that have left a mark, whatever has become of them since; nothing where there can be none.
  std::optional<std::set<int>> come() const;

 private:
  /// A process of this host, as process_start has it; pid 0: it was released.
  struct Mark {
    int64_t pid = 0, start = 0;

    bool has_died() const;
  };
  std::filesystem::path file(int process) const;
  /// Whether it could be written. Others see it whole or not at all.
  bool write(const Mark& mark) const;
  /// Of all processes that have come, by number.
  std::map<int, Mark> marks() const;
  std::set<int> present() const;

  int64_t launcher_ = 0, launcher_start_ = 0;
  std::filesystem::path folder_;  ///< "": there is none
  int processes_ = 1;
  int here_ = 0;  ///< how many of them are on this host; 0: not known
};

}  // namespace dptrain
