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

/// The settings with which a configuration of the tree trains in one process without a GPU. Each GPU becomes the CPU
/// worker of its number, so a device that is listed twice still is. A name that ends in NxM gets the workers of all N
/// processes. A GPU and a CPU worker become two workers with different numbers of threads.
Arguments on_cpu_workers(const std::string& name, const ConfigNode& root);

/// Runs the program in a folder of its own, on a short experiment with the real digits: that folder's digits.yaml.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest();

  ProcessOptions program(Arguments arguments) const;
  Finished run(const Arguments& arguments) const;

  /// `dptrain --config digits.yaml --out <out>` with these overrides as --set. Progress lines are off: they begin after
  /// ten seconds, which a run on a busy machine may reach.
  static Arguments training(const std::string& out, const Arguments& overrides = {});
  /// Trains. The program must exit with code 0 and print nothing on stderr.
  Finished train(const std::string& out, const Arguments& overrides = {}) const;

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  std::string text(const std::string& name) const { return text_of(path(name)); }
  nlohmann::json json_of(const std::string& name) const;
  /// The lines of a run's metrics.jsonl or steps.jsonl.
  std::vector<nlohmann::json> json_lines(const std::string& name) const;
  nlohmann::json last_metrics(const std::string& out) const;
  /// The hash that `dptrain hash` prints for a run, a checkpoint or a file.
  std::string hash(const std::string& name) const;
  /// How `value` violates docs/<schema>, one line each.
  static std::vector<std::string> violations(const std::string& schema, const nlohmann::json& value);

  /// Expects this exit code, nothing on stdout, and on stderr a last line that is one sentence with all of `words`.
  static void expect_failed(const Finished& finished, int code, const Arguments& words);
  /// Expects the same failure before anything has begun: there is no run directory, and stderr has only that one line.
  void expect_refused(const Arguments& arguments, int code, const Arguments& words) const;

  ScratchFolder folder_;
};

}  // namespace dptrain::testing
