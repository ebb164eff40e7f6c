#pragma once

#include <filesystem>
#include <regex>
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
  explicit Launch(const LaunchOptions& options)
      : count_(options.processes.size()),
        mpirun_({.command = command(options, files_.path()),
                 .folder = options.folder,
                 .timeout_s = options.timeout_s,
                 .out = {},
                 .err = {}}) {}

  /// What a failed test leaves running ends, too, also where mpirun can't end it any more.
  ~Launch() {
    for (size_t i = 0; i < count_; ++i)
      if (pid(i) > 0 && !has_ended(i)) ::kill(pid(i), SIGKILL);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// mpirun itself, to be signalled or waited for.
  Process& launcher() { return mpirun_; }
  /// Of the program that a process runs; 0 before it is started.
  pid_t pid(size_t process) const {
    const std::string text = file(process, ".pid");
    return text.empty() ? 0 : std::stoi(text);
  }
  /// Whether a process has ended by itself.
  bool has_ended(size_t process) const { return !file(process, ".exit").empty(); }
  /// Blocks until all of these have, also once mpirun is gone; fails the test where they don't.
  void wait_for_ends(const std::vector<size_t>& processes, double timeout_s) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
    const auto ended = [&] { return std::ranges::all_of(processes, [this](size_t one) { return has_ended(one); }); };
    while (!ended() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(ended()) << "processes went on for " << timeout_s << " s";
  }
  /// What a process has written so far, as it stands there.
  std::string out(size_t process) const { return file(process, ".out"); }
  std::string err(size_t process) const { return file(process, ".err"); }

  /// Blocks until mpirun has ended.
  Launched wait() {
    Launched launched{.launcher = mpirun_.wait(), .processes = {}};
    for (size_t i = 0; i < count_; ++i) {
      const std::string exit = file(i, ".exit");
      launched.processes.push_back(
          {.exit = exit.empty() ? -1 : std::stoi(exit), .out = out(i), .err = unmarked(err(i))});
    }
    return launched;
  }

 private:
  static std::string unmarked(const std::string& text) {
    static const std::regex mark("(^|\n)\\[(rank|process) [1-9][0-9]*\\] ");
    return std::regex_replace(text, mark, "$1");
  }
  static Command command(const LaunchOptions& options, const std::filesystem::path& files) {
    Command all = options.on;
    const auto add = [&all](const Command& more) { all.insert(all.end(), more.begin(), more.end()); };
    add({"/usr/bin/env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", mpirun()});
    add({"--oversubscribe", "--bind-to", "none"});
    add({"--mca", "odls_base_sigkill_timeout", std::to_string(options.grace_s)});
    add(options.flags);
    for (size_t i = 0; i < options.processes.size(); ++i) {
      if (i > 0) add({":"});
      add({"-n", "1", source_file("tests/support/one_process.sh"), files.string()});
      add(options.processes[i]);
    }
    return all;
  }
  std::string file(size_t process, const std::string& ending) const {
    return text_of(files_.path() / (std::to_string(process) + ending));
  }

  size_t count_;
  ScratchFolder files_;
  Process mpirun_;
};

/// Runs one command in so many processes, until all have ended.
inline Launched launch(size_t count, const Command& command, const std::filesystem::path& folder) {
  return Launch({.processes = std::vector<Command>(count, command), .folder = folder}).wait();
}

}  // namespace dptrain::testing
