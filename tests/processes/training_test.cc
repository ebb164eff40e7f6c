// Jobs of several processes train as one process with all their devices does: the same losses, the same bits.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>

#include "processes/job_training.h"

namespace dptrain::testing {
namespace {

TEST_P(JobParityTest, EndsInTheBitsOfOneProcess) { expect_bits_of_one_process(); }

constexpr const char* kGroups = "parameter_groups=[{of: [conv2, fc2], learning_rate_factor: 0.3}]";

INSTANTIATE_TEST_SUITE_P(
    Ways, JobParityTest,
    ::testing::Values(
        Way{"two_and_two", "lenet_ddp_2cpu", {2, 2}}, Way{"one_and_one", "lenet_ddp_2cpu", {1, 1}},
        Way{"three_and_three", "lenet_ddp_2cpu", {3, 3}}, Way{"two_and_four", "lenet_ddp_2cpu", {2, 4}},
        Way{"three_processes", "lenet_ddp_2cpu", {1, 2, 1}},
        Way{"bf16", "lenet_ddp_2cpu", {1, 2}, strategy("{name: ddp, compress: bf16}")},
        Way{"fp16", "lenet_ddp_2cpu", {2, 2}, strategy("{name: ddp, compress: fp16}")},
        Way{"powersgd", "lenet_ddp_2cpu", {2, 1}, strategy("{name: ddp, compress: {name: powersgd, rank: 2}}")},
        Way{"two_bit", "lenet_ddp_2cpu", {2, 1}, strategy("{name: ddp, compress: two_bit}")},
        Way{"shard_optimizer", "lenet_ddp_2cpu", {2, 1}, strategy("{name: ddp, shard_optimizer: true}")},
        Way{"fsdp", "lenet_ddp_2cpu", {2, 1}, strategy("fsdp")},
        Way{"fsdp_replicas", "lenet_ddp_2cpu", {2, 2}, strategy("{name: fsdp, replicas: 2, unit_mb: 0.1}")},
        Way{"fsdp_replicas_over_processes",
            "lenet_ddp_2cpu",
            {1, 2, 1},
            strategy("{name: fsdp, replicas: 2, unit_mb: 0.1}")},
        Way{"fsdp_of_bf16_pyramids",
            "pyramidnet_small_1cpu",
            {1, 2},
            {"--set", "strategy={name: fsdp, unit_mb: 0.01}", "--set", "precision=bf16", "--set", "batch_norm=sync",
             "--set", "batch_size=48", "--set", "ema=0.9"}},
        Way{"lars_of_shards",
            "lenet_ddp_2cpu",
            {2, 1},
            {"--set", "strategy={name: ddp, shard_optimizer: true}", "--set",
             "optimizer={name: lars, trust_coefficient: 0.05}", "--set", "learning_rate=1"}},
        Way{"small_buckets", "lenet_ddp_2cpu", {1, 1}, strategy("{name: ddp, overlap: false, bucket_mb: 0.1}")},
        Way{"next_forward", "lenet_ddp_2cpu", {1, 2}, strategy("{name: ddp, overlap: next_forward, bucket_mb: 0.1}")},
        Way{"next_forward_bf16",
            "lenet_ddp_2cpu",
            {2, 1},
            strategy("{name: ddp, overlap: next_forward, bucket_mb: 0.1, compress: bf16}")},
        Way{"find_unused", "lenet_ddp_2cpu", {1, 2}, strategy("{name: ddp, find_unused: true, bucket_mb: 0.1}")},
        Way{"kvstore", "lenet_ddp_2cpu", {2, 2}, strategy("{name: kvstore, type: device}")},
        Way{"local_sgd", "lenet_ddp_2cpu", {1, 2}, strategy("{name: local_sgd, period: 3}")},
        Way{"local_sgd_adasum", "lenet_ddp_2cpu", {1, 2}, strategy("{name: local_sgd, period: 3, combine: adasum}")},
        Way{"local_sgd_powersgd",
            "lenet_ddp_2cpu",
            {1, 2},
            strategy(
                "{name: local_sgd, period: 3, compress: powersgd, outer_learning_rate: 0.7, outer_momentum: 0.9}")},
        Way{"shards", "lenet_ddp_2cpu", {2, 2}, {"--set", "shards=8"}},
        Way{"shards_of_six", "lenet_ddp_2cpu", {1, 1}, {"--set", "shards=6"}},
        Way{"accumulate", "lenet_ddp_2cpu", {1, 2}, {"--set", "accumulate=2"}},
        Way{"split", "lenet_ddp_2cpu", {2, 1}, {"--set", "split=[0.5, 0.2, 0.3]"}},
        Way{"ema_and_clip", "lenet_ddp_2cpu", {1, 2}, {"--set", "ema=0.9", "--set", "clip_norm=0.5"}},
        Way{"tuned",
            "lenet_ddp_2cpu",
            {1, 2},
            {"--set", "freeze=[conv1, fc1.bias]", "--set", kGroups, "--set", "ema=0.9", "--set", "clip_norm=0.5"}},
        Way{"logged_steps", "lenet_ddp_2cpu", {1, 1}, {"--set", "log_steps=true"}},
        Way{"batch_norm_local",
            "pyramidnet_small_1cpu",
            {1, 2},
            {"--set", "strategy=ddp", "--set", "batch_norm=local", "--set", "batch_size=48"}},
        Way{"batch_norm_sync",
            "pyramidnet_small_1cpu",
            {1, 2},
            {"--set", "strategy=ddp", "--set", "batch_norm=sync", "--set", "batch_size=48"}},
        Way{"batch_norm_average",
            "pyramidnet_small_1cpu",
            {1, 2},
            {"--set", "strategy=ddp", "--set", "batch_norm=average", "--set", "batch_size=48"}},
        Way{"batch_norm_first",
            "pyramidnet_small_1cpu",
            {2, 1},
            {"--set", "strategy=ddp", "--set", "batch_norm=first", "--set", "batch_size=48"}},
        Way{"text",
            "bert_small_1cpu",
            {1, 2},
            {"--set", "strategy=ddp", "--set", "steps=3", "--set", "batch_size=12"}}),
    [](const ::testing::TestParamInfo<Way>& way) { return way.param.name; });

/// Each process splits its samples and gathers its outputs; gradients are added as ddp adds them.
TEST_F(JobTrainingTest, DataParallelInsideProcessesEndsInTheBitsOfDdp) {
  for (const Command& more : {Command{"--set", "accumulate=2", "--set", "batch_size=60"}, {"--set", "shards=8"}}) {
    Command settings = kLittleData;
    settings.insert(settings.end(), more.begin(), more.end());
    settings.emplace_back("--overwrite");
    ASSERT_EQ(alone(training("ddp", "lenet_ddp_2cpu", 4, settings)).exit, 0);
    settings.insert(settings.end(), {"--set", "strategy={name: ddp, inside: data_parallel}"});
    const Launched job = launch_processes(
        {training("job", "lenet_ddp_2cpu", 1, settings), training("job", "lenet_ddp_2cpu", 3, settings)});
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    const json expected = last_epoch(run("ddp")), got = last_epoch(run("job"));
    EXPECT_EQ(got["weights_hash"], expected["weights_hash"]) << more[1];
    EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
    // Losses are added micro-batch by micro-batch, not rank by rank.
    EXPECT_NEAR(got["train"]["loss"].get<double>(), expected["train"]["loss"].get<double>(), 1e-12);
    for (const int rank : {0, 1, 2, 3})
      EXPECT_EQ(got["devices"][rank]["samples"], expected["devices"][rank]["samples"]) << rank;
  }
}

TEST_F(JobTrainingTest, LogsEveryStepOfAllRanks) {
  const Command settings = {"--set", "steps=5", "--set", "epochs=", "--set", "log_steps=true"};
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 2, settings)).exit, 0);
  const Launched job = launch_processes(std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, settings)));
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  EXPECT_EQ(text_of(run("job") / "steps.jsonl"), text_of(run("one") / "steps.jsonl"));
}

TEST_F(JobTrainingTest, ResumesAsOneProcessAndAsAJob) {
  // In the last case, epochs of five steps end between two averagings.
  for (const auto& [ending, strategy] :
       {std::pair<std::string, std::string>("", "ddp"),
        {"_cut", kLenetStages},
        {"_apart", "{name: local_sgd, period: 3, outer_learning_rate: 0.7, outer_momentum: 0.9}"}}) {
    SCOPED_TRACE(strategy);
    Command settings = {"--set", "epochs=2",
                        "--set", "dataset.limit=320",
                        "--set", "dataset.test_limit=200",
                        "--set", std::string("strategy=") + strategy};
    const auto name = [&, end = ending](const std::string& of) { return of + end; };
    ASSERT_EQ(alone(training(name("whole"), "lenet_ddp_2cpu", 2, settings)).exit, 0);
    settings[1] = "epochs=1";
    const Command half = training(name("job"), "lenet_ddp_2cpu", 1, settings);
    ASSERT_EQ(launch_processes({half, half}).processes[0].exit, 0);
    settings[1] = "epochs=2";
    settings.emplace_back("--resume");
    std::filesystem::copy(run(name("job")), run(name("alone")), std::filesystem::copy_options::recursive);
    const Command rest = training(name("job"), "lenet_ddp_2cpu", 1, settings);
    const Launched job = launch_processes({rest, rest});
    ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
    ASSERT_EQ(alone(training(name("alone"), "lenet_ddp_2cpu", 2, settings)).exit, 0);
    const json expected = last_epoch(run(name("whole")));
    for (const char* of : {"job", "alone"}) {
      EXPECT_EQ(last_epoch(run(name(of)))["weights_hash"], expected["weights_hash"]) << of;
      EXPECT_EQ(last_epoch(run(name(of)))["epoch"], 2) << of;
    }
  }
}

/// The first process finds the best epoch, and all stop with it. After two epochs the learning rate changes no weight.
TEST_F(JobTrainingTest, StopsEarlyWhereOneProcessDoes) {
  Command settings = {"--set", "epochs=9",
                      "--set", "dataset.limit=420",
                      "--set", "dataset.test_limit=200",
                      "--set", "validation={samples: 100, patience: 1}",
                      "--set", "schedule={name: step, every_epochs: 2, gamma: 1.0e-30}"};
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 2, settings)).exit, 0);
  const Launched job = launch_processes(std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, settings)));
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json expected = json::parse(text_of(run("one") / "summary.json")),
             got = json::parse(text_of(run("job") / "summary.json"));
  EXPECT_TRUE(expected["stopped_early"]);
  EXPECT_LE(expected["epochs"], 3);
  for (const char* key : {"stopped_early", "epochs", "weights_hash"}) EXPECT_EQ(got[key], expected[key]) << key;
  for (const char* key : {"epoch", "weights_hash"}) EXPECT_EQ(got["best"][key], expected["best"][key]) << key;
  EXPECT_TRUE(std::filesystem::exists(run("job") / "checkpoints/best/manifest.json"));

  // This also holds for processes that don't wait for each other.
  settings.insert(settings.end(), {"--set", "strategy={name: kvstore, type: dist_async}"});
  const Launched async = launch_processes(std::vector<Command>(2, training("async", "lenet_ddp_2cpu", 1, settings)));
  for (const Finished& process : async.processes) ASSERT_EQ(process.exit, 0) << process.err;
  EXPECT_TRUE(json::parse(text_of(run("async") / "summary.json"))["stopped_early"]);
}

/// The first process has the validation's score, and all continue with the learning rate that follows from it.
TEST_F(JobTrainingTest, APlateauReducesTheRateOfAll) {
  const Command settings = {"--set", "epochs=4",
                            "--set", "dataset.limit=420",
                            "--set", "dataset.test_limit=200",
                            "--set", "validation={samples: 100}",
                            "--set", "schedule={name: plateau, patience: 0, threshold: 0.99}"};
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 2, settings)).exit, 0);
  const Launched job = launch_processes(std::vector<Command>(2, training("job", "lenet_ddp_2cpu", 1, settings)));
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
  EXPECT_DOUBLE_EQ(expected["learning_rate"], 0.0005) << "twice a tenth of 0.05";
  for (const char* key : {"learning_rate", "weights_hash"}) EXPECT_EQ(got[key], expected[key]) << key;
}

TEST_F(JobTrainingTest, OnlyTheFirstProcessTalksAndWrites) {
  Command command = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  std::erase(command, "--quiet");
  const Launched job = launch_processes({command, command});
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  EXPECT_NE(job.processes[0].out.find(": cpu:0 and "), std::string::npos) << job.processes[0].out;
  EXPECT_NE(job.processes[0].out.find("1/1"), std::string::npos) << job.processes[0].out;
  EXPECT_EQ(job.processes[1].out + job.processes[1].err, "");
  const json summary = json::parse(text_of(run("job") / "summary.json"));
  EXPECT_EQ(summary["environment"]["devices"], json({"cpu:0", "cpu:0"}));
}

TEST_F(JobTrainingTest, AnotherConfigurationIsToldByKeyAndBothValues) {
  Command other = kLittleData;
  other.insert(other.end(), {"--set", "learning_rate=0.1"});
  const Launched job = launch_processes(
      {training("job", "lenet_ddp_2cpu", 1, kLittleData), training("job", "lenet_ddp_2cpu", 1, other)});
  for (const std::string& sentence : last_sentences(job, 76)) {
    EXPECT_TRUE(sentence.starts_with("dptrain: learning_rate: 0.05 on process 0 on ")) << sentence;
    EXPECT_NE(sentence.find(", 0.1 on process 1 on "), std::string::npos) << sentence;
  }
  EXPECT_FALSE(std::filesystem::exists(run("job") / "metrics.jsonl"));
}

TEST_F(JobTrainingTest, AMistakeOfOneProcessEndsAllWithItsSentence) {
  const Launched job = launch_processes(
      {training("job", "lenet_ddp_2cpu", 1, kLittleData), training("job", "no_such_configuration", 1, kLittleData)});
  const auto sentences = last_sentences(job, 66);
  EXPECT_EQ(sentences[0], sentences[1]);
  EXPECT_TRUE(sentences[0].starts_with("dptrain: no_such_configuration: ")) << sentences[0];
}

TEST_F(JobTrainingTest, MoreDevicesThanAProcessOfSeveralCanHaveAreRefused) {
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", "batch_size=128"});
  Command many = training("job", "lenet_ddp_2cpu", 1, settings);
  *(std::ranges::find(many, "cpu:0")) = "cpu:0-63,cpu:0";
  const Launched job = launch_processes({training("job", "lenet_ddp_2cpu", 1, settings), many});
  const auto sentences = last_sentences(job, 78);
  EXPECT_EQ(sentences[0], sentences[1]);
  EXPECT_NE(sentences[0].find("devices: expected at most 64 per process in a job of several processes, got 65"),
            std::string::npos)
      << sentences[0];
}

TEST_F(JobTrainingTest, ADivergedLossEndsAllWithItsSentence) {
  for (const char* strategy : {"ddp", kLenetStages}) {
    Command settings = kLittleData;
    settings.insert(settings.end(),
                    {"--set", "learning_rate=1e30", "--set", std::string("strategy=") + strategy, "--overwrite"});
    const Command command = training("job", "lenet_ddp_2cpu", 1, settings);
    const auto sentences = last_sentences(launch_processes({command, command}), 79);
    EXPECT_EQ(sentences[0], sentences[1]);
    EXPECT_NE(sentences[0].find("training diverged"), std::string::npos) << sentences[0];
  }
}

/// A host may have less memory than the others, or a container a limit.
TEST_F(JobTrainingTest, AProcessWithoutMemoryEndsAllWithItsSentence) {
  const Command first =
      training("job", "lenet_ddp_2cpu", 1,
               {"--set", "epochs=1", "--set", "batch_size=40000", "--set", "split=[1, 39999]", "--set",
                "dataset={name: synthetic, shape: [1, 28, 28], samples: 40000, test_samples: 64}"});
  Command second = {"/bin/bash", "-c", "ulimit -v 2000000; exec \"$0\" \"$@\""};
  second.insert(second.end(), first.begin(), first.end());
  const auto sentences = last_sentences(launch_processes({first, second}), 71);
  EXPECT_EQ(sentences[0], sentences[1]);
  EXPECT_TRUE(sentences[0].starts_with("dptrain: rank 1 (cpu:0), step 1: cpu:0: out of memory: wanted "))
      << sentences[0];
  const json fault = json::parse(text_of(run("job") / "fault.json"), nullptr, false);
  ASSERT_TRUE(fault.is_object());
  EXPECT_EQ(fault["exit"], 71);
  EXPECT_EQ(fault["root"]["rank"], 1);
}

/// Processes can't recognize srun as they recognize mpirun. Here mpirun replaces it under the name of Slurm's daemon.
TEST_F(JobTrainingTest, TheCommandThatGoesOnUnderSrunNamesThePluginThatJoinsProcesses) {
  Command launch = {"/bin/bash", "-c", "exec -a slurmstepd \"$0\" \"$@\"", mpirun(), "--allow-run-as-root"};
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", "learning_rate=1e30"});
  const Command command = training("job", "lenet_ddp_2cpu", 1, settings);
  launch.insert(launch.end(), {"--oversubscribe", "--bind-to", "none", "-n", "2"});
  launch.insert(launch.end(), command.begin(), command.end());
  const Finished finished = alone(launch);
  EXPECT_EQ(finished.exit, 79) << finished.err;
  const auto resume = json::parse(text_of(run("job") / "fault.json"))["resume"].get<std::string>();
  EXPECT_TRUE(resume.starts_with("srun --mpi=pmix --kill-on-bad-exit -n 2 " + command[0] + " --config lenet_ddp_2cpu "))
      << resume;
}

TEST_F(JobTrainingTest, WhatDoesNotReachOverProcessesIsRefused) {
  for (const auto& [setting, word] : {std::pair("strategy=data_parallel", "works across 2 processes"),
                                      {"strategy={name: kvstore, type: local}", "works across 2 processes"},
                                      {"strategy=single", "works across 2 processes"},
                                      {"strategy=auto", "works across 2 processes"},
                                      {"links.gbps=1", "a job of several processes uses its real links"}}) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--set", setting});
    const Command command = training("job", "lenet_ddp_2cpu", 1, settings);
    for (const std::string& sentence : last_sentences(launch_processes({command, command}), 78))
      EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
  }
}

TEST_F(JobTrainingTest, CoresThatALauncherHasTakenAwayAreToldInOneLine) {
  if (::sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "a machine with one core";
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  Command bound = {"/usr/bin/taskset", "--cpu-list", std::to_string(core)};
  const Command command = training("job", "lenet_ddp_2cpu", 2, kLittleData);
  bound.insert(bound.end(), command.begin(), command.end());
  const Launched job = launch_processes({command, bound, bound});
  EXPECT_EQ(job.processes[0].exit, 0);
  const auto said = lines_of(job.processes[0].err);
  ASSERT_EQ(said.size(), 1u) << job.processes[0].err;
  EXPECT_TRUE(said[0].starts_with("dptrain: warning: process 1 on ")) << said[0];
  EXPECT_NE(said[0].find(", as 1 more, computes with 2 CPU threads on 1 of "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("--bind-to none"), std::string::npos) << said[0];
  EXPECT_EQ(job.processes[1].err + job.processes[2].err, "");
}

/// All processes agree on the weights of the split, from each one's measurement.
TEST_F(JobTrainingTest, ProcessesShareOutByMeasuredSpeeds) {
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", "split=auto"});
  const Launched job = launch_processes(
      {training("job", "lenet_ddp_2cpu", 2, settings), training("job", "lenet_ddp_2cpu", 1, settings)});
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json last = last_epoch(run("job"));
  int64_t samples = 0;
  for (const json& device : last["devices"]) samples += device["samples"].get<int64_t>();
  EXPECT_EQ(samples, 320);
  EXPECT_EQ(last["train"]["samples"], 320);
}

TEST_F(JobTrainingTest, OtherInstructionSetsAreRefused) {
  // With oneDNN's kernels for the lowest instruction set, convolutions take 0.1 s per sample.
  const Command command = training(
      "job", "lenet_ddp_2cpu", 1,
      {"--set", "epochs=1", "--set", "batch_size=8", "--set", "dataset.limit=16", "--set", "dataset.test_limit=4"});
  Command lesser = {"/usr/bin/env", "ONEDNN_MAX_CPU_ISA=SSE41", "DNNL_MAX_CPU_ISA=SSE41"};
  lesser.insert(lesser.end(), command.begin(), command.end());
  for (const std::string& sentence : last_sentences(launch_processes({command, lesser}), 76))
    EXPECT_TRUE(sentence.starts_with("dptrain: kinds of devices: cpu with ") &&
                sentence.ends_with("start all processes with ONEDNN_MAX_CPU_ISA=AVX2"))
        << sentence;
  const Launched capped = launch_processes({lesser, lesser});
  for (const Finished& process : capped.processes) EXPECT_EQ(process.exit, 0) << process.err;
}

TEST_F(JobTrainingTest, MoreThanAFewProcessesTrain) {
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", "batch_size=90"});
  ASSERT_EQ(alone(training("one", "lenet_ddp_2cpu", 9, settings)).exit, 0);
  const Launched job = launch_processes(std::vector<Command>(9, training("job", "lenet_ddp_2cpu", 1, settings)));
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["weights_hash"], last_epoch(run("one"))["weights_hash"]);
}

TEST_F(JobTrainingTest, OtherCommandsRunInOneProcess) {
  const Command table = {dptrain_binary(), "table", "runs"};
  for (const std::string& sentence : last_sentences(launch_processes({table, table}), 64))
    EXPECT_NE(sentence.find("dptrain table runs in one process"), std::string::npos) << sentence;
  const Command operators = {dptrain_binary(), "bench", "ops"};
  for (const std::string& sentence : last_sentences(launch_processes({operators, operators}), 64))
    EXPECT_NE(sentence.find("dptrain bench ops runs in one process"), std::string::npos) << sentence;
}

TEST_F(JobTrainingTest, MpiThatJoinsFewerThanWereLaunchedIsRefused) {
  Command command = training("job", "lenet_ddp_2cpu", 1, kLittleData);
  command.insert(command.begin(), {"/usr/bin/env", "PMI_SIZE=2", "PMI_RANK=0"});
  const Finished process = alone(command);
  EXPECT_EQ(process.exit, 69);
  EXPECT_NE(process.err.find("started 2 processes, but MPI joined only 1"), std::string::npos) << process.err;
}

TEST_F(JobTrainingTest, HostsHaveListsOfTheirOwn) {
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  const auto with_hosts = [&](const std::string& of, const std::string& host) {
    Command command = training(of, "lenet_ddp_2cpu", 1, kLittleData);
    command.insert(command.end(), {"--set", "hosts={" + host + ": [cpu:0, cpu:1], elsewhere: [cpu:0]}"});
    return command;
  };
  const Command command = with_hosts("job", name.data());
  const Launched job = launch_processes({command, command});
  ASSERT_EQ(job.processes[0].exit, 0) << job.processes[0].err;
  EXPECT_EQ(last_epoch(run("job"))["world_size"], 4);
  ASSERT_EQ(alone(with_hosts("one", name.data())).exit, 0);
  EXPECT_EQ(last_epoch(run("one"))["world_size"], 2);

  const Command unknown = with_hosts("unknown", "nowhere");
  for (const std::string& sentence : last_sentences(launch_processes({unknown, unknown}), 78))
    EXPECT_NE(sentence.find(std::string("expected the devices of host '") + name.data()), std::string::npos)
        << sentence;
}

/// The configurations are for two hosts with GPUs; here they run on CPU workers.
TEST_F(JobTrainingTest, ConfigurationsOfTwoHostsTrainInTwoProcesses) {
  for (const auto& [config, devices] : {std::pair("lenet_kvstore_2x4gpu", 4), {"lenet_hybrid_2x2gpu", 2}}) {
    SCOPED_TRACE(config);
    const Launched job = launch_processes(std::vector<Command>(2, training(config, config, devices, kLittleData)));
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    EXPECT_EQ(last_epoch(run(config))["world_size"], 2 * devices);
    const Finished one = alone(training("one", config, 2 * devices, kLittleData));
    ASSERT_EQ(one.exit, 0) << one.err;
    EXPECT_EQ(last_epoch(run(config))["weights_hash"], last_epoch(run("one"))["weights_hash"]);
    std::filesystem::remove_all(run("one"));
  }
}

}  // namespace
}  // namespace dptrain::testing
