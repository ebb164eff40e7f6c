#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "config/config_node.h"
#include "support/json_schema.h"
#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain::testing {

using Arguments = std::vector<std::string>;

/// What is set so that a configuration of the tree trains in one process without a GPU: CPU workers of the GPUs'
/// numbers, so that a device that is listed twice still is. Where its name ends in NxM they are the workers of N
/// processes; a GPU and a CPU worker become two workers that are unlike, too.
inline Arguments on_cpu_workers(const std::string& name, const ConfigNode& root) {
  std::vector<std::string> devices = {"cpu:0"};
  if (const ConfigNode* listed = root.find("devices"); listed != nullptr) {
    devices.clear();
    for (const ConfigNode& device : listed->list) devices.push_back(device.scalar);
  }
  const size_t x = name.find('x', name.rfind('_'));
  if (x != std::string::npos && std::isdigit(static_cast<unsigned char>(name[x - 1])) != 0)
    return {fmt::format("devices=cpu:0-{}", devices.size() * static_cast<size_t>(name[x - 1] - '0') - 1)};
  if (devices == std::vector<std::string>{"cuda:0", "cpu:0"}) return {"devices=cpu:0-1", "threads=[1, 3]"};
  for (std::string& device : devices) device = "cpu" + device.substr(device.find(':'));
  return {fmt::format("devices={}", fmt::join(devices, ","))};
}

/// Runs the program in a folder of its own, on a short experiment with the real digits: digits.yaml there.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    folder_.write("digits.yaml",
                  "model: lenet\n"
                  "dataset: {name: mnist, limit: 320, test_limit: 200}\n"
                  "devices: [cpu:0, cpu:1]\n"
                  "threads: 1\n"
                  "strategy: ddp\n"
                  "batch_size: 64\n"
                  "learning_rate: 0.05\n"
                  "optimizer: {name: sgd, momentum: 0.9}\n"
                  "epochs: 1\n");
  }

  ProcessOptions program(Arguments arguments) const {
    arguments.insert(arguments.begin(), dptrain_binary());
    return {.command = std::move(arguments), .folder = folder_.path(), .out = {}, .err = {}};
  }
  Finished run(const Arguments& arguments) const { return Process(program(arguments)).wait(); }

  /// `dptrain --config digits.yaml --out <out>` with these overrides as --set. No progress lines, which come after ten
  /// seconds: on a busy machine that is soon.
  static Arguments training(const std::string& out, const Arguments& overrides = {}) {
    Arguments arguments = {"--config", "digits.yaml", "--out", out, "--progress", "none"};
    for (const auto& assignment : overrides) {
      arguments.emplace_back("--set");
      arguments.push_back(assignment);
    }
    return arguments;
  }
  /// Trains, which must end with 0.
  Finished train(const std::string& out, const Arguments& overrides = {}) const {
    Finished finished = run(training(out, overrides));
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    return finished;
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  std::string text(const std::string& name) const { return text_of(path(name)); }
  nlohmann::json json_of(const std::string& name) const { return nlohmann::json::parse(text(name)); }
  /// The lines of a run's metrics.jsonl or steps.jsonl.
  std::vector<nlohmann::json> json_lines(const std::string& name) const {
    std::vector<nlohmann::json> parsed;
    for (const auto& line : lines_of(text(name))) parsed.push_back(nlohmann::json::parse(line));
    return parsed;
  }
  nlohmann::json last_metrics(const std::string& out) const {
    const auto lines = json_lines(out + "/metrics.jsonl");
    EXPECT_FALSE(lines.empty()) << out;
    return lines.empty() ? nlohmann::json() : lines.back();
  }
  /// What `dptrain hash` prints of a run, a checkpoint or a file.
  std::string hash(const std::string& name) const {
    const Finished finished = run({"hash", name});
    EXPECT_EQ(finished.exit, 0) << finished.err;
    EXPECT_EQ(finished.out.size(), 65u) << "64 digits and the line's end";
    return finished.out.substr(0, 64);
  }
  static std::vector<std::string> violations(const std::string& schema, const nlohmann::json& value) {
    return JsonSchema(nlohmann::json::parse(text_of(source_file("docs/") + schema))).violations(value);
  }

  /// Expects this exit code, nothing on stdout, and as the last line on stderr one sentence with all of `words`.
  static void expect_failed(const Finished& finished, int code, const Arguments& words) {
    EXPECT_EQ(finished.exit, code) << finished.err;
    const std::string sentence = finished.last_error();
    EXPECT_TRUE(sentence.starts_with("dptrain: ")) << finished.err;
    EXPECT_TRUE(finished.err.ends_with('\n'));
    for (const auto& word : words)
      EXPECT_NE(sentence.find(word), std::string::npos) << "no '" << word << "' in: " << sentence;
  }
  /// The same, refused before anything was begun: there is no run directory and nothing was said but that one line.
  void expect_refused(const Arguments& arguments, int code, const Arguments& words) const {
    SCOPED_TRACE(arguments.back());
    const Finished finished = run(arguments);
    expect_failed(finished, code, words);
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(lines_of(finished.err).size(), 1u) << finished.err;
    EXPECT_FALSE(exists("run")) << "a run directory was made";
    EXPECT_FALSE(exists("runs"));
  }

  ScratchFolder folder_;
};

}  // namespace dptrain::testing
