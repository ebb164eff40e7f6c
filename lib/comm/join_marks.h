#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "comm/process_handle.h"

namespace dptrain {

/// Which processes of a job have come to where they join it, as far as one that waits for the others can tell: each
/// leaves a mark in the folder that Open MPI's mpirun, or a launcher by PMIx, gives the job on its host, and removes
/// with it. Of other hosts nothing is known.
class JoinMarks {
 public:
  /// Leaves the mark of this process. Where there is no such folder, or it can't be written, nothing is known of any.
  JoinMarks();

  /// This process has joined, or is about to end by itself: it isn't watched any more.
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
  std::optional<Process> find_dead();

 private:
  /// Of a process that isn't released.
  struct Mark {
    int64_t pid = 0, start = 0;
  };
  std::filesystem::path file(int process) const;
  std::optional<Mark> mark_of(int process) const;
  bool has_died(int process) const;
  /// That have come, and those of them that live.
  std::set<int> present_marks() const;
  std::set<int> present() const;

  std::filesystem::path folder_;  ///< "": there is none
  int processes_ = 1;
  int here_ = 0;  ///< how many of them are on this host; 0: not known
  std::map<int, ProcessHandle> watched_;
};

}  // namespace dptrain
