#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config_node.h"
#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain::testing {

using Arguments = std::vector<std::string>;

/// What is set so that a configuration of the tree trains in one process without a GPU: CPU workers of the GPUs'
/// numbers, so that a device that is listed twice still is. Where its name ends in NxM they are the workers of N
/// processes; a GPU and a CPU worker become two workers that are unlike, too.
Arguments on_cpu_workers(const std::string& name, const ConfigNode& root);

/// Runs the program in a folder of its own, on a short experiment with the real digits: digits.yaml there.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest();

  ProcessOptions program(Arguments arguments) const;
  Finished run(const Arguments& arguments) const;

  /// `dptrain --config digits.yaml --out <out>` with these overrides as --set. No progress lines, which come after ten
  /// seconds: on a busy machine that is soon.
  static Arguments training(const std::string& out, const Arguments& overrides = {});
  /// Trains, which must end with 0.
  Finished train(const std::string& out, const Arguments& overrides = {}) const;

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  std::string text(const std::string& name) const { return text_of(path(name)); }
  nlohmann::json json_of(const std::string& name) const;
  /// The lines of a run's metrics.jsonl or steps.jsonl.
  std::vector<nlohmann::json> json_lines(const std::string& name) const;
  nlohmann::json last_metrics(const std::string& out) const;
  /// What `dptrain hash` prints of a run, a checkpoint or a file.
  std::string hash(const std::string& name) const;
  /// What is wrong with `value` by docs/<schema>, a line each.
  static std::vector<std::string> violations(const std::string& schema, const nlohmann::json& value);

  /// Expects this exit code, nothing on stdout, and as the last line on stderr one sentence with all of `words`.
  static void expect_failed(const Finished& finished, int code, const Arguments& words);
  /// The same, refused before anything was begun: there is no run directory and nothing was said but that one line.
  void expect_refused(const Arguments& arguments, int code, const Arguments& words) const;

  ScratchFolder folder_;
};

}  // namespace dptrain::testing
