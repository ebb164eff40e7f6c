// Pipelines with stages in several processes train as one process with all their devices does: the same losses, the
// same bits.
#include <regex>

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

class PipelineParityTest : public JobParityTest {};
class PipelineTrainingTest : public JobTrainingTest {};

TEST_P(PipelineParityTest, EndsInTheBitsOfOneProcess) { expect_bits_of_one_process(); }

constexpr const char* kGroups =
    "parameter_groups=[{of: cls, learning_rate_factor: 5}, {dimensions: 1, learning_rate_factor: 2}]";

INSTANTIATE_TEST_SUITE_P(
    Ways, PipelineParityTest,
    ::testing::Values(
        Way{"pipeline", "lenet_ddp_2cpu", {1, 1}, strategy(kLenetStages)},
        Way{"pipeline_gpipe",
            "lenet_ddp_2cpu",
            {2, 1},
            strategy("{name: model_parallel, stages: [1, 1, 1], schedule: gpipe}")},
        Way{"pipeline_zero_bubble",
            "lenet_ddp_2cpu",
            {1, 2},
            strategy("{name: model_parallel, stages: [1, 1, 1], schedule: zero_bubble}")},
        Way{"pipeline_accumulate",
            "lenet_ddp_2cpu",
            {1, 2},
            {"--set", "strategy={name: model_parallel, stages: [1, 1, 1]}", "--set", "accumulate=2", "--set", "ema=0.9",
             "--set", "clip_norm=0.5"}},
        Way{"pipeline_bf16",
            "lenet_ddp_2cpu",
            {1, 1},
            {"--set", std::string("strategy=") + kLenetStages, "--set", "precision=bf16"}},
        Way{"pipeline_text",
            "bert_small_1cpu",
            {1, 2},
            {"--set", "strategy={name: model_parallel, stages: [2, 2, 1], micro_batches: 3}", "--set", "steps=3",
             "--set", "batch_size=12", "--set", "eval_every=0"}},
        Way{"pipeline_tuned",
            "bert_small_1cpu",
            {1, 2},
            {"--set", "strategy={name: model_parallel, stages: [2, 2, 1], micro_batches: 3, schedule: zero_bubble}",
             "--set", "steps=3", "--set", "batch_size=12", "--set", "eval_every=0", "--set", "ema=0.9", "--set",
             "freeze=[bert.embeddings, bert.encoder.layer.2]", "--set", kGroups}},
        Way{"pipeline_interleaved",
            "bert_small_1cpu",
            {1, 1},
            {"--set", "strategy={name: model_parallel, schedule: interleaved, stages: [2, 1, 1, 1]}", "--set",
             "steps=3", "--set", "batch_size=12", "--set", "eval_every=0", "--set", "ema=0.9"}},
        Way{"hybrid", "lenet_ddp_2cpu", {2, 2}, strategy(kLenetReplicas)},
        Way{"hybrid_apart", "lenet_ddp_2cpu", {1, 3}, strategy(kLenetReplicas)},
        Way{"hybrid_logged",
            "lenet_ddp_2cpu",
            {1, 2, 1},
            {"--set", std::string("strategy=") + kLenetReplicas, "--set", "log_steps=true"}},
        Way{"hybrid_sync",
            "pyramidnet_small_1cpu",
            {1, 3},
            {"--set", "strategy={name: hybrid, stages: [5, 6], micro_batches: 2}", "--set", "batch_norm=sync", "--set",
             "batch_size=48"}}),
    [](const ::testing::TestParamInfo<Way>& way) { return way.param.name; });

TEST_F(PipelineTrainingTest, APipelineBeginsWithWeightsOfAFile) {
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", std::string("strategy=") + kLenetStages});
  ASSERT_EQ(alone(training("first", "lenet_ddp_2cpu", 2, settings)).exit, 0);
  // First all weights are drawn again, then all but some of each stage.
  const std::string names[] = {"all", "some"}, more[] = {"", ", except: [conv2.bias, fc1]"};
  for (size_t i = 0; i < 2; ++i) {
    Command began = settings;
    began.insert(began.end(), {"--set", "init={from: " + run("first").string() + more[i] + "}"});
    ASSERT_EQ(alone(training("one_" + names[i], "lenet_ddp_2cpu", 2, began)).exit, 0);
    const Command command = training("job_" + names[i], "lenet_ddp_2cpu", 1, began);
    const Launched job = launch_processes({command, command});
    ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    EXPECT_EQ(last_epoch(run("job_" + names[i]))["weights_hash"], last_epoch(run("one_" + names[i]))["weights_hash"]);
  }
  EXPECT_NE(last_epoch(run("one_all"))["weights_hash"], last_epoch(run("one_some"))["weights_hash"]);
}

/// The last stage knows a tied tensor by its second name only.
TEST_F(PipelineTrainingTest, ATiedTensorIsDrawnAlikeOverProcesses) {
  const Command settings = {
      "--set",       "strategy={name: model_parallel, stages: [3, 2]}", "--set", "steps=2", "--set", "epochs=", "--set",
      "eval_every=0"};
  ASSERT_EQ(alone(training("first", "bert_small_1cpu", 2, settings)).exit, 0);
  Command began = settings;
  began.insert(began.end(), {"--set", "seed=5", "--set",
                             "init={from: " + run("first").string() + ", except: [bert.embeddings.word_embeddings]}"});
  ASSERT_EQ(alone(training("one", "bert_small_1cpu", 2, began)).exit, 0);
  const Command command = training("job", "bert_small_1cpu", 1, began);
  const Launched job = launch_processes({command, command});
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], last_epoch(run("one"))["weights_hash"]);
}

TEST_F(PipelineTrainingTest, ReplicasOfAProcessTrainOnItsPartOfTheData) {
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", std::string("strategy=") + kLenetReplicas, "--set",
                                   "dataset.partition=by_process", "--set", "batch_size=64"});
  const Command command = training("job", "lenet_ddp_2cpu", 4, settings);
  const Launched job = launch_processes({command, command});
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  const auto last = last_epoch(run("job"));
  int64_t samples = 0;
  // Last stages count the samples.
  for (size_t device = 1; device < last["devices"].size(); device += 2) {
    EXPECT_EQ(last["devices"][device]["samples"], last["devices"][1]["samples"]) << "of each of four replicas";
    samples += last["devices"][device]["samples"].get<int64_t>();
  }
  EXPECT_EQ(last["devices"].size(), 8u);
  EXPECT_EQ(samples, last["train"]["samples"]);
}

TEST_F(PipelineTrainingTest, WeightsOfAnotherFileAreRefused) {
  // Each process works in its own folder and finds a different file there; no stage is in both processes.
  std::vector<Command> processes;
  for (const std::string seed : {"1", "2"}) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--set", "seed=" + seed, "--set", "steps=1", "--set", "epochs="});
    ASSERT_EQ(alone(training("first" + seed, "lenet_ddp_2cpu", 2, settings)).exit, 0);
    const auto folder = run("of" + seed);
    std::filesystem::create_directory(folder);
    for (const auto& checkpoint : std::filesystem::directory_iterator(run("first" + seed) / "checkpoints"))
      std::filesystem::copy(checkpoint.path() / "model.safetensors", folder);
    Command command = {"/usr/bin/env", "-C", folder.string()};
    settings = kLittleData;
    settings.insert(settings.end(), {"--set", std::string("strategy=") + kLenetStages, "--set",
                                     "init={from: /proc/self/cwd/model.safetensors}"});
    const Command started = training("job", "lenet_ddp_2cpu", 1, settings);
    command.insert(command.end(), started.begin(), started.end());
    processes.push_back(command);
  }
  for (const std::string& sentence : last_sentences(launch_processes(processes), 76))
    EXPECT_TRUE(std::regex_match(
        sentence, std::regex("dptrain: initial weights: [0-9a-f]{64} on process 0 on .+, [0-9a-f]{64} on process 1 "
                             "on .+; start all processes alike")))
        << sentence;
}

TEST_F(PipelineTrainingTest, AStageWithoutMemoryEndsAllWithItsSentence) {
  // The second stage has the linear layers; their weights, gradients and momentum alone exceed the limit.
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", std::string("strategy=") + kLenetStages, "--set", "memory_limit=1500000",
                                   "--set", "batch_size=16"});
  const Command command = training("job", "lenet_ddp_2cpu", 1, settings);
  const auto sentences = last_sentences(launch_processes({command, command}), 71);
  EXPECT_EQ(sentences[0], sentences[1]);
  EXPECT_NE(sentences[0].find("rank 1 (cpu:0)"), std::string::npos) << sentences[0];
}

}  // namespace
}  // namespace dptrain::testing
