#include "support/launch.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <stdexcept>
#include <thread>

namespace dptrain::testing {
namespace {

std::string unmarked(const std::string& text) {
  static const std::regex mark("(^|\n)\\[(rank|process) [1-9][0-9]*\\] ");
  return std::regex_replace(text, mark, "$1");
}

Command mpirun_command(const LaunchOptions& options, const std::filesystem::path& files) {
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

}  // namespace

Launch::Launch(const LaunchOptions& options)
    : count_(options.processes.size()),
      mpirun_({.command = mpirun_command(options, files_.path()),
               .folder = options.folder,
               .timeout_s = options.timeout_s,
               .out = {},
               .err = {}}) {}

Launch::~Launch() {
  for (size_t i = 0; i < count_; ++i)
    if (has_started(i) && !has_ended(i)) ::kill(pid(i), SIGKILL);
}

bool Launch::has_started(size_t process) const { return !file(process, ".pid").empty(); }

pid_t Launch::pid(size_t process) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!has_started(process)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error(fmt::format("process {} has not been started", process));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return std::stoi(file(process, ".pid"));
}

bool Launch::has_ended(size_t process) const { return !file(process, ".exit").empty(); }

void Launch::wait_for_ends(const std::vector<size_t>& processes, double timeout_s) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  const auto ended = [&] { return std::ranges::all_of(processes, [this](size_t one) { return has_ended(one); }); };
  while (!ended() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(ended()) << "processes went on for " << timeout_s << " s";
}

std::string Launch::out(size_t process) const { return file(process, ".out"); }

std::string Launch::err(size_t process) const { return file(process, ".err"); }

Launched Launch::wait() {
  Launched launched{.launcher = mpirun_.wait(), .processes = {}};
  for (size_t i = 0; i < count_; ++i) {
    const std::string exit = file(i, ".exit");
    launched.processes.push_back({.exit = exit.empty() ? -1 : std::stoi(exit), .out = out(i), .err = unmarked(err(i))});
  }
  return launched;
}

std::string Launch::file(size_t process, const std::string& ending) const {
  return text_of(files_.path() / (std::to_string(process) + ending));
}

Launched launch(size_t count, const Command& command, const std::filesystem::path& folder) {
  return Launch({.processes = std::vector<Command>(count, command), .folder = folder}).wait();
}

}  // namespace dptrain::testing
