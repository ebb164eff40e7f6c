#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace dptrain {

/// Which processes of a job have come to where they join it, as far as one that waits for the others can tell: each
/// leaves a mark in the folder that Open MPI's mpirun, or a launcher by PMIx, gives the job on its host, and removes
/// with it. Of other hosts nothing is known.
class JoinMarks {
 public:
  /// Leaves the mark of this process. Where there is no such folder, or it can't be written, nothing is known of any.
  JoinMarks();

  /// What is known of who is missing: ": process 2 is missing", or over several hosts ": of those on host a 2 of 2 are
  /// there; the hosts of the job are a, b". "" where nothing is.
  std::string missing() const;
  /// Whether this process is to leave the record of it: the first one of the job, or where that is known to be missing
  /// the first that is there.
  bool speaks_for_job() const;

 private:
  std::set<int> present() const;

  std::filesystem::path folder_;  ///< "": there is none
  int processes_ = 1;
  int here_ = 0;  ///< how many of them are on this host; 0: not known
};

}  // namespace dptrain
