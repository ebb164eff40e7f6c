// A run that is killed in the middle of an epoch, or at its end, and then resumed gives bit-identical weights to an
// uninterrupted run: for every optimizer, and under every way to split a batch.
#include <signal.h>

#include "e2e/command_fixture.h"

namespace dptrain {
namespace {

using testing::Arguments;
using testing::Finished;
using testing::Process;

/// A word for a test's name, and the settings that it stands for.
struct Setting {
  std::string name;
  Arguments overrides;

  friend std::ostream& operator<<(std::ostream& out, const Setting& setting) { return out << setting.name; }
};

const std::vector<Setting> kOptimizers = {
    {"sgd", {"optimizer=sgd"}},
    {"momentum", {"optimizer={name: sgd, momentum: 0.9}"}},
    {"nesterov", {"optimizer={name: sgd, momentum: 0.9, nesterov: true, weight_decay: 0.01}"}},
    {"adam", {"optimizer={name: adam, weight_decay: 0.01}", "learning_rate=0.001"}},
    {"adamw", {"optimizer={name: adamw, weight_decay: 0.01}", "learning_rate=0.001"}}};
const std::vector<Setting> kStrategies = {{"single", {"devices=cpu:0", "strategy=single"}},
                                          {"data_parallel", {"strategy=data_parallel"}},
                                          {"ddp", {"strategy=ddp"}}};
/// When checkpoints are written: of an epoch's 80 steps, after each that 7 divides, or after the last one.
const std::vector<Setting> kMoments = {{"in_the_middle", {"checkpoint={every_epochs: 0, every_steps: 7}"}},
                                       {"at_the_end", {"checkpoint={every_epochs: 1}"}}};
constexpr int64_t kEpoch = 80;

class KilledRunTest : public testing::CommandTest,
                      public ::testing::WithParamInterface<std::tuple<Setting, Setting, Setting>> {
 protected:
  /// A net with short steps and everything that a checkpoint has to hold: weights, running statistics, random draws.
  Arguments overrides(int64_t steps) const {
    Arguments all = {
        "model={layers: [conv: {channels: 4, kernel: 5, stride: 4}, batch_norm, relu, flatten, "
        "dropout: 0.2, linear: classes]}",
        "dataset.limit=320",
        "dataset.test_limit=20",
        "batch_size=4",
        "log_steps=true",
        "epochs=",
        "steps=" + std::to_string(steps)};
    const auto& [optimizer, strategy, moment] = GetParam();
    for (const Setting* setting : {&optimizer, &strategy, &moment})
      all.insert(all.end(), setting->overrides.begin(), setting->overrides.end());
    return all;
  }
  bool is_at_the_end() const { return std::get<2>(GetParam()).name == "at_the_end"; }

  /// The step of the newest complete checkpoint; 0 if there is none.
  int64_t newest_checkpoint(const std::string& run) const {
    int64_t newest = 0;
    if (!exists(run + "/checkpoints")) return newest;
    for (const auto& entry : std::filesystem::directory_iterator(path(run + "/checkpoints"))) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("step-") && std::filesystem::exists(entry.path() / "manifest.json"))
        newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
    }
    return newest;
  }
};

TEST_P(KilledRunTest, EndsInTheSameBits) {
  Process process(program(training("killed", overrides(1'000'000))));
  process.wait_until([&] { return newest_checkpoint("killed") > 0; });
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().exit, 137);
  const int64_t step = newest_checkpoint("killed");
  EXPECT_EQ(step % kEpoch == 0, is_at_the_end()) << step;

  // The resumed run goes past the end of its epoch, into the next one.
  const int64_t steps = (step / kEpoch + 1) * kEpoch + kEpoch / 2;
  Arguments resuming = training("killed", overrides(steps));
  resuming.emplace_back("--resume");
  const Finished resumed = run(resuming);
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed after step " + std::to_string(step) + " "), std::string::npos) << resumed.out;
  train("whole", overrides(steps));
  EXPECT_EQ(hash("killed"), hash("whole"));
  EXPECT_EQ(text("killed/steps.jsonl"), text("whole/steps.jsonl"));
  const auto metrics = json_lines("killed/metrics.jsonl"), expected = json_lines("whole/metrics.jsonl");
  ASSERT_EQ(metrics.size(), expected.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i]["weights_hash"], expected[i]["weights_hash"]) << "epoch " << i + 1;
    EXPECT_EQ(metrics[i]["train"]["loss"], expected[i]["train"]["loss"]) << "epoch " << i + 1;
    EXPECT_EQ(metrics[i]["test"]["loss"], expected[i]["test"]["loss"]) << "epoch " << i + 1;
    EXPECT_EQ(violations("metrics.schema.json", metrics[i]), std::vector<std::string>());
  }
}

std::string name_of(const ::testing::TestParamInfo<KilledRunTest::ParamType>& row) {
  const auto& [optimizer, strategy, moment] = row.param;
  return strategy.name + "_" + optimizer.name + "_" + moment.name;
}

INSTANTIATE_TEST_SUITE_P(Grid, KilledRunTest,
                         ::testing::Combine(::testing::ValuesIn(kOptimizers), ::testing::ValuesIn(kStrategies),
                                            ::testing::ValuesIn(kMoments)),
                         name_of);

}  // namespace
}  // namespace dptrain
