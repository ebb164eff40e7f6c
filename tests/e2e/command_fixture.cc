#include "e2e/command_fixture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdlib>
#include <utility>

#include "support/json_schema.h"

namespace dptrain::testing {

Arguments on_cpu_workers(const std::string& name, const ConfigNode& root) {
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

CommandTest::CommandTest() {
  ::unsetenv("COLUMNS");  // it sets the width of the output
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

ProcessOptions CommandTest::program(Arguments arguments) const {
  arguments.insert(arguments.begin(), dptrain_binary());
  return {.command = std::move(arguments), .folder = folder_.path(), .out = {}, .err = {}};
}

Finished CommandTest::run(const Arguments& arguments) const { return Process(program(arguments)).wait(); }

Arguments CommandTest::training(const std::string& out, const Arguments& overrides) {
  Arguments arguments = {"--config", "digits.yaml", "--out", out, "--progress", "none"};
  for (const auto& assignment : overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(assignment);
  }
  return arguments;
}

Finished CommandTest::train(const std::string& out, const Arguments& overrides) const {
  Finished finished = run(training(out, overrides));
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  return finished;
}

nlohmann::json CommandTest::json_of(const std::string& name) const { return nlohmann::json::parse(text(name)); }

std::vector<nlohmann::json> CommandTest::json_lines(const std::string& name) const {
  std::vector<nlohmann::json> parsed;
  for (const auto& line : lines_of(text(name))) parsed.push_back(nlohmann::json::parse(line));
  return parsed;
}

nlohmann::json CommandTest::last_metrics(const std::string& out) const {
  const auto lines = json_lines(out + "/metrics.jsonl");
  EXPECT_FALSE(lines.empty()) << out;
  return lines.empty() ? nlohmann::json() : lines.back();
}

std::string CommandTest::hash(const std::string& name) const {
  const Finished finished = run({"hash", name});
  EXPECT_EQ(finished.exit, 0) << finished.err;
  EXPECT_EQ(finished.out.size(), 65u) << "64 digits and the line's end";
  return finished.out.substr(0, 64);
}

std::vector<std::string> CommandTest::violations(const std::string& schema, const nlohmann::json& value) {
  return schema_violations(schema, value);
}

void CommandTest::expect_failed(const Finished& finished, int code, const Arguments& words) {
  EXPECT_EQ(finished.exit, code) << finished.err;
  const std::string sentence = finished.last_error();
  EXPECT_TRUE(sentence.starts_with("dptrain: ")) << finished.err;
  EXPECT_TRUE(finished.err.ends_with('\n'));
  for (const auto& word : words)
    EXPECT_NE(sentence.find(word), std::string::npos) << "no '" << word << "' in: " << sentence;
}

void CommandTest::expect_refused(const Arguments& arguments, int code, const Arguments& words) const {
  SCOPED_TRACE(arguments.back());
  const Finished finished = run(arguments);
  expect_failed(finished, code, words);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(lines_of(finished.err).size(), 1u) << finished.err;
  EXPECT_FALSE(exists("run")) << "a run directory was made";
  EXPECT_FALSE(exists("runs"));
}

}  // namespace dptrain::testing
