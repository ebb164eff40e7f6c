#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/launch.h"

namespace dptrain::testing {

using nlohmann::json;

/// What a run has left of its last epoch; nothing where it has left none.
inline json last_epoch(const std::filesystem::path& run) {
  const std::string text = text_of(run / "metrics.jsonl");
  if (text.empty()) return {};
  const size_t before = text.rfind('\n', text.size() - 2);
  return json::parse(text.substr(before == std::string::npos ? 0 : before + 1));
}

inline std::string cpu_devices(int count) { return count == 1 ? "cpu:0" : "cpu:0-" + std::to_string(count - 1); }

class JobTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override { DPTRAIN_NEEDS_MPI(); }

  std::filesystem::path run(const std::string& name) const { return folder_.path() / name; }

  /// A short training of `config` on so many devices, with more arguments.
  Command training(const std::string& name, const std::string& config, int devices, const Command& more) const {
    Command command = {DPTRAIN_BINARY, "--config",         config,    "--devices",  cpu_devices(devices),
                       "--out",        run(name).string(), "--quiet", "--progress", "none",
                       "--set",        "threads=1"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  Launched launch_processes(const std::vector<Command>& processes) const {
    return Launch({.processes = processes, .folder = folder_.path(), .on = {}, .flags = {}, .grace_s = 1}).wait();
  }

  Finished alone(const Command& command) const {
    return Process({.command = command, .folder = folder_.path(), .timeout_s = 120, .out = {}, .err = {}}).wait();
  }

  ScratchFolder folder_;
};

}  // namespace dptrain::testing
