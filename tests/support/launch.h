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
  std::vector<Command> processes;  ///< what each process runs
  std::filesystem::path folder;    ///< working folder of the processes
  Command on = {};                 ///< words to put before mpirun's command, to run it elsewhere
  Command flags = {};              ///< more flags for mpirun
  /// Where a process fails, mpirun sends the others SIGTERM after this many seconds, and kills them after as many
  /// again. The time is about a second shorter for each process that has ended meanwhile.
  int grace_s = 0;
  double timeout_s = 60;  ///< after it mpirun is killed, which fails the test
};

struct Launched {
  Finished launcher;
  /// Each process's stdout and stderr separately, without the prefix of a line ("[rank 1] "), so that outputs can be
  /// compared. exit is -1 where the launcher killed a process before it ended by itself.
  std::vector<Finished> processes;
};

/// Processes that mpirun starts as one job, running beside the test.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options);
  /// Ends what a failed test leaves running, even where mpirun can no longer end it.
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// mpirun itself, to be signaled or waited for.
  Process& launcher() { return mpirun_; }
  /// Whether mpirun has already started a process's program.
  bool has_started(size_t process) const;
  /// The id of the program that a process runs. Waits until it is started: a signal to process id 0 would go to the
  /// test.
  /// \throws std::runtime_error if the program isn't started within half a minute
  pid_t pid(size_t process) const;
  /// Whether a process has ended by itself.
  bool has_ended(size_t process) const;
  /// Blocks until all of these processes have ended, even if mpirun is gone by then; fails the test if they don't end
  /// in time.
  void wait_for_ends(const std::vector<size_t>& processes, double timeout_s) const;
  /// What a process has written so far, unchanged.
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

/// Runs one command in `count` processes, until all have ended.
Launched launch(size_t count, const Command& command, const std::filesystem::path& folder);

}  // namespace dptrain::testing
