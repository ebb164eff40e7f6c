// A process whose weights or losses go wrong ends all processes with exit code 79 and the same sentence, which names
// it.
#include <unistd.h>

#include <array>

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  EXPECT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  return name.data();
}

class DivergedJobTest : public JobTrainingTest {
 protected:
  /// Trains in processes with these numbers of devices, five steps per epoch, with a weight that goes wrong.
  Launched trained(const std::string& fault, const std::vector<int>& devices, const Command& more) const {
    Command settings = {"--set", "epochs=2",          "--set", "batch_size=64",
                        "--set", "dataset.limit=320", "--set", "dataset.test_limit=200"};
    settings.insert(settings.end(), more.begin(), more.end());
    std::vector<Command> processes;
    for (const int own : devices) {
      processes.push_back(training("job", "lenet_ddp_2cpu", own, settings));
      if (!fault.empty()) processes.back().insert(processes.back().end(), {"--fault", fault});
    }
    return launch_processes(processes);
  }
  /// The sentence with which all processes have ended.
  static std::string common_sentence(const Launched& job) {
    const std::vector<std::string> sentences = last_sentences(job, 79);
    for (const std::string& sentence : sentences) EXPECT_EQ(sentence, sentences[0]);
    return sentences[0];
  }
  size_t checkpoints() const {
    std::error_code none;
    const std::filesystem::directory_iterator all(run("job") / "checkpoints", none);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
};

struct Flipped {
  std::string name;
  std::vector<int> devices;  ///< for each process
  Command settings = {};
  int rank = 1;
  int64_t step = 7;
  std::string parameter = "conv2.weight";
};

void PrintTo(const Flipped& flipped, std::ostream* out) { *out << flipped.name; }

class FlippedBitTest : public DivergedJobTest, public ::testing::WithParamInterface<Flipped> {};

TEST_P(FlippedBitTest, IsFoundAtTheEndOfTheEpochAndNotKept) {
  const Flipped& way = GetParam();
  const Launched job = trained(
      "flip:rank=" + std::to_string(way.rank) + ",step=" + std::to_string(way.step) + ",parameter=" + way.parameter,
      way.devices, way.settings);
  const std::string sentence = common_sentence(job);
  const std::string rank = "got different bits on rank " + std::to_string(way.rank) + " (cpu:";
  EXPECT_TRUE(sentence.starts_with("dptrain: step 10, epoch 2: expected " + way.parameter +
                                   " to be bit-identical on all devices, " + rank))
      << sentence;
  EXPECT_NE(sentence.find(" on " + host_name() + ") than on rank 0 (cpu:0 on " + host_name() + "); "),
            std::string::npos)
      << sentence;
  const json fault = json::parse(text_of(run("job") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object());
  EXPECT_EQ(fault["root"]["kind"], "diverged");
  EXPECT_EQ(fault["last_checkpoint"]["step"], 5);
  EXPECT_EQ(checkpoints(), 1u) << "that of the first epoch";
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FlippedBitTest,
    ::testing::Values(Flipped{"ddp", {1, 1}}, Flipped{.name = "uneven", .devices = {1, 2}, .settings = {}, .rank = 2},
                      Flipped{"next_forward", {1, 1}, strategy("{name: ddp, overlap: next_forward}")},
                      // The second process's first device is the one that holds weights.
                      Flipped{.name = "inside",
                              .devices = {2, 2},
                              .settings = strategy("{name: ddp, inside: data_parallel}"),
                              .rank = 2},
                      // The pulled weights are wrong until the next step pulls again.
                      Flipped{.name = "dist_sync",
                              .devices = {1, 1},
                              .settings = strategy("{name: kvstore, type: dist_sync}"),
                              .step = 10},
                      Flipped{.name = "stages",
                              .devices = {1, 3},
                              .settings = strategy(kLenetReplicas),
                              .rank = 2,
                              .parameter = "conv1.weight"}),
    [](const ::testing::TestParamInfo<Flipped>& way) { return way.param.name; });

TEST_F(DivergedJobTest, ATrainingGoesOnFromBeforeTheBitFlipped) {
  const Launched flipped = trained("flip:rank=1,step=8,parameter=fc1.weight", {1, 1}, {});
  common_sentence(flipped);
  const Launched resumed = trained("", {1, 1}, {"--resume"});
  for (const Finished& process : resumed.processes) EXPECT_EQ(process.exit, 0) << process.err;
  const std::string got = last_epoch(run("job"))["weights_hash"];
  ASSERT_EQ(trained("", {1, 1}, {"--overwrite"}).processes[0].exit, 0);
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], got);
  EXPECT_FALSE(std::filesystem::exists(run("job") / "fault.json"));
}

/// The sentence is the same, whichever process sees the loss first.
TEST_F(DivergedJobTest, ALossThatIsNotFiniteIsSaidToBeOfItsRank) {
  for (const Command& more : {Command{}, {"--set", "log_steps=true"}, strategy("{name: kvstore, type: dist_sync}")}) {
    Command settings = more;
    settings.emplace_back("--overwrite");
    const std::string sentence = common_sentence(trained("nan:rank=2,step=6,parameter=fc2.weight", {1, 2}, settings));
    EXPECT_TRUE(sentence.starts_with("dptrain: step 7, epoch 2: training diverged: the loss of rank 2 (cpu:1 on " +
                                     host_name() + ") is no longer finite; "))
        << sentence;
    EXPECT_EQ(checkpoints(), 1u);
  }
}

TEST_F(DivergedJobTest, AnAsynchronousWorkerSaysThatTheLossIsItsOwn) {
  const std::string sentence = common_sentence(
      trained("nan:rank=1,step=3,parameter=fc2.weight", {1, 1}, strategy("{name: kvstore, type: dist_async}")));
  EXPECT_NE(sentence.find("training diverged: the loss of rank "), std::string::npos) << sentence;
  EXPECT_NE(sentence.find(" on " + host_name() + ") is no longer finite; "), std::string::npos) << sentence;
}

}  // namespace
}  // namespace dptrain::testing
