#include "processes/job_training.h"

#include <ostream>

#include "support/json_schema.h"

namespace dptrain::testing {

json last_epoch(const std::filesystem::path& run) {
  const std::string text = text_of(run / "metrics.jsonl");
  if (text.empty()) return {};
  const size_t before = text.rfind('\n', text.size() - 2);
  return json::parse(text.substr(before == std::string::npos ? 0 : before + 1));
}

std::string cpu_devices(int count) { return count == 1 ? "cpu:0" : "cpu:0-" + std::to_string(count - 1); }

void JobTrainingTest::SetUp() { DPTRAIN_NEEDS_MPI(); }

Command JobTrainingTest::training(const std::string& name, const std::string& config, int devices,
                                  const Command& more) const {
  Command command = {dptrain_binary(), "--config",         config,    "--devices",  cpu_devices(devices),
                     "--out",          run(name).string(), "--quiet", "--progress", "none",
                     "--set",          "threads=1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

Launched JobTrainingTest::launch_processes(const std::vector<Command>& processes) const {
  return Launch({.processes = processes, .folder = folder_.path(), .on = {}, .flags = {}, .grace_s = 1}).wait();
}

Finished JobTrainingTest::alone(const Command& command) const {
  return Process({.command = command, .folder = folder_.path(), .timeout_s = 120, .out = {}, .err = {}}).wait();
}

std::vector<std::string> last_sentences(const Launched& job, int code) {
  std::vector<std::string> sentences;
  for (const Finished& process : job.processes) {
    EXPECT_EQ(process.exit, code) << process.err;
    const std::string text = process.err.substr(0, process.err.size() - 1);
    const size_t before = text.rfind('\n');
    sentences.push_back(text.substr(before == std::string::npos ? 0 : before + 1));
  }
  return sentences;
}

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

void JobParityTest::expect_bits_of_one_process() const {
  const Way& way = GetParam();
  Command settings = way.settings;
  if (way.config != "bert_small_1cpu") settings.insert(settings.end(), kLittleData.begin(), kLittleData.end());
  int all = 0;
  std::vector<Command> processes;
  for (const int devices : way.devices) {
    all += devices;
    processes.push_back(training("job", way.config, devices, settings));
  }
  const Finished one = alone(training("one", way.config, all, settings));
  ASSERT_EQ(one.exit, 0) << one.err;
  const Launched job = launch_processes(processes);
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;

  json expected = last_epoch(run("one")), got = last_epoch(run("job"));
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
  for (const char* pass : {"train", "test"})
    for (const char* figure : {"loss", "accuracy", "samples"})
      EXPECT_EQ(got[pass][figure], expected[pass][figure]) << pass << " " << figure;
  for (const char* figure : {"world_size", "step", "skipped_steps", "batch_norm"})
    EXPECT_EQ(got[figure], expected[figure]) << figure;
  EXPECT_EQ(got["comm"], expected["comm"]);
  ASSERT_EQ(got["pipeline"].is_null(), expected["pipeline"].is_null());
  if (!got["pipeline"].is_null()) {
    for (const char* figure : {"stages", "micro_batches", "schedule"})
      EXPECT_EQ(got["pipeline"][figure], expected["pipeline"][figure]) << figure;
    EXPECT_GT(got["pipeline"]["bubble"], 0);
  }
  ASSERT_EQ(got["devices"].size(), static_cast<size_t>(all));
  for (int rank = 0; rank < all; ++rank) {
    const json& device = got["devices"][static_cast<size_t>(rank)];
    EXPECT_EQ(device["rank"], rank);
    EXPECT_EQ(device["samples"], expected["devices"][static_cast<size_t>(rank)]["samples"]);
    EXPECT_GT(device["peak_bytes"], 0);
  }
}

json expect_unbegun_fault(const std::filesystem::path& run, int code, const std::string& cause) {
  json fault = json::parse(text_of(run / "fault.json"), nullptr, false);
  if (!fault.is_object()) {
    ADD_FAILURE() << run << " has no fault.json";
    return json::object();
  }
  EXPECT_EQ(schema_violations("fault.schema.json", fault), std::vector<std::string>()) << fault;
  EXPECT_EQ(fault["exit"], code);
  EXPECT_EQ(fault["root"]["kind"], code == 76 ? "ranks_disagree" : code == 75 ? "peer_lost" : "job_not_formed");
  EXPECT_EQ(fault["root"]["cause"], cause);
  EXPECT_EQ(fault["last_checkpoint"], nullptr);
  EXPECT_EQ(fault["steps_lost"], 0);
  for (const auto& entry : std::filesystem::directory_iterator(run))
    EXPECT_EQ(entry.path().filename(), "fault.json") << "it isn't the run's yet";
  return fault;
}

Command strategy(const std::string& options) { return {"--set", "strategy=" + options}; }

}  // namespace dptrain::testing
