#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain::testing {

/// Skips where this build or this machine has no MPI.
#define DPTRAIN_NEEDS_MPI()                                                                                       \
  do {                                                                                                            \
    if (!DPTRAIN_WITH_MPI) GTEST_SKIP() << "MPI is not built in";                                                 \
    if (!std::filesystem::exists(dptrain::testing::mpirun())) GTEST_SKIP() << "mpirun of Open MPI was not found"; \
  } while (false)

using Command = std::vector<std::string>;

struct LaunchOptions {
  std::vector<Command> processes;  ///< what each of them runs
  std::filesystem::path folder;    ///< that they work in
  Command on = {};                 ///< what to begin mpirun's command with, to run it elsewhere
  Command flags = {};              ///< more of them for mpirun
  /// Where one fails, mpirun sends the others SIGTERM after so long, and kills them after as long again; rather a
  /// second less for each that has ended meanwhile.
  int grace_s = 0;
  double timeout_s = 60;  ///< after which mpirun is killed, which fails the test
};

struct Launched {
  Finished launcher;
  /// Their stdout and stderr apart from each other's, without what marks a line as one of theirs ("[rank 1] "): so what
  /// they say can be compared. exit -1 where the launcher killed one before it ended by itself.
  std::vector<Finished> processes;
};

/// Processes that mpirun starts as one job, running beside the test.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options);
  /// What a failed test leaves running ends, too, also where mpirun can't end it any more.
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// mpirun itself, to be signalled or waited for.
  Process& launcher() { return mpirun_; }
  /// Whether mpirun has got so far as to start the program of a process.
  bool has_started(size_t process) const;
  /// Of the program that a process runs. Waits until it is started: a signal to process 0 would be one to the test.
  /// \throws std::runtime_error where it isn't within half a minute
  pid_t pid(size_t process) const;
  /// Whether a process has ended by itself.
  bool has_ended(size_t process) const;
  /// Blocks until all of these have, also once mpirun is gone; fails the test where they don't.
  void wait_for_ends(const std::vector<size_t>& processes, double timeout_s) const;
  /// What a process has written so far, as it stands there.
  std::string out(size_t process) const;
  std::string err(size_t process) const;

  /// Blocks until mpirun has ended.
  Launched wait();

 private:
  std::string file(size_t process, const std::string& ending) const;

  size_t count_;
  ScratchFolder files_;
  Process mpirun_;
};

/// Runs one command in so many processes, until all have ended.
Launched launch(size_t count, const Command& command, const std::filesystem::path& folder);

}  // namespace dptrain::testing
