#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/launch.h"

namespace dptrain::testing {

using nlohmann::json;

/// The line of metrics.jsonl for a run's last epoch; null where the run has written none.
json last_epoch(const std::filesystem::path& run);

std::string cpu_devices(int count);

class JobTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override;

  std::filesystem::path run(const std::string& name) const { return folder_.path() / name; }

  /// The command of a short training run of `config` on `devices` CPU workers, with more arguments.
  Command training(const std::string& name, const std::string& config, int devices, const Command& more) const;

  Launched launch_processes(const std::vector<Command>& processes) const;

  Finished alone(const Command& command) const;

  ScratchFolder folder_;
};

inline const Command kLittleData = {
    "--set", "epochs=1", "--set", "dataset.limit=320", "--set", "dataset.test_limit=200"};

/// A pipeline of two devices, and two replicas of it.
inline constexpr const char* kLenetStages = "{name: model_parallel, stages: [conv1, conv2], micro_batches: 4}";
inline constexpr const char* kLenetReplicas =
    "{name: hybrid, model_parallel: 2, stages: [conv1, conv2], micro_batches: 4}";

/// The last line on stderr of each process. Expects all to exit with `code`.
std::vector<std::string> last_sentences(const Launched& job, int code);

struct Way {
  std::string name;
  std::string config;
  std::vector<int> devices;  ///< for each process
  Command settings = {};
};

void PrintTo(const Way& way, std::ostream* out);

/// Trains in a way's processes, and in one process with all their devices.
class JobParityTest : public JobTrainingTest, public ::testing::WithParamInterface<Way> {
 protected:
  void expect_bits_of_one_process() const;
};

/// Returns fault.json of a job that ended before its training began. Expects it to be the only file in the run's
/// directory.
json expect_unbegun_fault(const std::filesystem::path& run, int code, const std::string& cause);

Command strategy(const std::string& options);

}  // namespace dptrain::testing
