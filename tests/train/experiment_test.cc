// How a configuration is read, and what is refused: the keys that lib/train reads itself.
#include "train/experiment.h"

#include <gtest/gtest.h>

#include "device/cuda_probe.h"
#include "device/host_machine.h"
#include "support/expect_error.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

using testing::expect_error;

TEST(Experiment, DefaultsAreTheDocumentedOnes) {
  const Experiment experiment = experiment_of();
  EXPECT_EQ(experiment.name, "test");
  EXPECT_EQ(experiment.strategy.name, "ddp");
  EXPECT_EQ(experiment.seed, 0u);
  EXPECT_EQ(experiment.eval_every, 1);
  EXPECT_FALSE(experiment.log_steps);
  EXPECT_FALSE(experiment.tensorboard);
  EXPECT_EQ(experiment.memory_limit_bytes, 0);
  EXPECT_EQ(experiment_of({"devices=cpu:3"}).strategy.name, "single");
}

TEST(Experiment, ThreadsAreSharedOutOrGiven) {
  const int share = std::max(1, usable_cores() / 2);
  EXPECT_EQ(experiment_of({"threads="}).threads, std::vector<int>({share, share}));
  EXPECT_EQ(experiment_of({"threads=3"}).threads, std::vector<int>({3, 3}));
  EXPECT_EQ(experiment_of({"threads=[1, 3]"}).threads, std::vector<int>({1, 3}));
}

TEST(Experiment, BatchesAreOfTheWholeOrOfEachDevice) {
  EXPECT_EQ(experiment_of({"batch_size=", "per_device_batch_size=5"}).batch_size, 10);
  EXPECT_EQ(experiment_of({"batch_size=10", "per_device_batch_size=5"}).batch_size, 10);
  EXPECT_EQ(experiment_of({"batch_size=2"}).batch_size, 2);
}

TEST(Experiment, DevicesMayStandTwice) {
  const auto devices = experiment_of({"devices=[cpu:0, cpu:0, cpu:2]"}).devices;
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[1].name(), "cpu:0");
  EXPECT_EQ(devices[2].name(), "cpu:2");
}

TEST(Experiment, TheDevicesOfOtherHostsAreReadToo) {
  const auto mistakes_at = [](const std::string& host) {
    const ConfigJob job{.host = host};
    try {
      Experiment experiment;
      const ConfigSession session(config_of({"hosts={a: 'cpu:0-1', b: 'gpu:0', c: 'cpu:3-1'}", "epochs=x"}),
                                  [&](ConfigReader& reader) { experiment = read_experiment(reader, "test", job); });
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::config);
      return error.lines();
    }
    return std::vector<std::string>();
  };
  const std::vector<std::string> expected = {
      "--set: epochs: expected an integer from 1 to 1000000, got 'x'; write for instance --set epochs=1",
      "--set: hosts.b: expected a device list, got 'gpu:0'; did you mean cuda:0?",
      "--set: hosts.c: expected a device list, got 'cpu:3-1'; did you mean cpu:1-3?"};
  for (const char* host : {"a", "c", "elsewhere"}) {
    auto lines = mistakes_at(host);
    std::ranges::sort(lines);
    EXPECT_EQ(lines, expected) << host;
  }
}

/// Other values follow from the number of devices, and are checked against it.
TEST(Experiment, AProcessThatServesReadsItByTheDevicesOfTheFirstOne) {
  const std::vector<DeviceId> gpus = {{DeviceKind::cuda, 0}, {DeviceKind::cuda, 1}};
  ConfigJob job{.processes = 4,
                .process = 3,
                .store_servers = 1,
                .hosts = {"gpus", "gpus", "cpus", "cpus"},
                .host = "cpus",
                .exchange_devices = [&gpus](const std::vector<DeviceId>& own) {
                  EXPECT_TRUE(own.empty());
                  return std::vector<std::vector<DeviceId>>{gpus, gpus, {}, {}};
                }};
  const Experiment served =
      experiment_of({"devices=cuda:0-1", "hosts={gpus: [cuda:0-1]}", "threads=[2, 3]", "precision=fp16",
                     "convolution=measured", "strategy={name: kvstore, type: dist_sync, servers: 1}"},
                    job);
  EXPECT_FALSE(served.deterministic);
  EXPECT_EQ(served.devices, gpus);
  EXPECT_EQ(served.devices_of_processes, std::vector<int>({2, 2}));
  // Where no process is left to train, the first process still trains.
  job = {.processes = 3, .process = 0, .store_servers = 2};
  EXPECT_TRUE(job.trains());
}

/// The optimizer's state isn't compressed, and would be most of what is sent.
TEST(Experiment, OptimizersKeepTheirOwnStateWhereAveragingsAreCompressed) {
  const auto state_with = [](const std::string& compress) {
    const ConfigSession session(
        config_of({"devices=cpu:0-1", "strategy={name: local_sgd, compress: " + compress + "}"}),
        [](ConfigReader& reader) { read_experiment(reader, "test"); });
    const std::string text = session.resolved_yaml();
    const std::string key = "optimizer_state: ";
    const size_t at = text.find(key) + key.size();
    return text.substr(at, text.find_first_of(" \n,}", at) - at);
  };
  EXPECT_EQ(state_with("none"), "averaged");
  EXPECT_EQ(state_with("two_bit"), "own");
  EXPECT_EQ(state_with("powersgd, optimizer_state: averaged"), "averaged");
}

TEST(Experiment, ProcessesOfAHostMayHaveADeviceEach) {
  const auto devices_of = [](int process) {
    const std::vector<std::string> hosts = {"a", "b", "a", "b", "b"};
    const ConfigJob job{
        .processes = 5,
        .process = process,
        .hosts = hosts,
        .host = hosts[static_cast<size_t>(process)],
        .exchange_devices = [](const std::vector<DeviceId>&) { return std::vector(5, std::vector<DeviceId>(1)); }};
    Experiment experiment;
    const ConfigSession session(config_of({"devices=cpu:local"}),
                                [&](ConfigReader& reader) { experiment = read_experiment(reader, "test", job); });
    EXPECT_NE(session.resolved_yaml().find("[cpu:local]"), std::string::npos)
        << "what config.yaml says starts all of them again: " << session.resolved_yaml();
    return experiment.devices[0].name();
  };
  EXPECT_EQ(devices_of(0), "cpu:0");
  EXPECT_EQ(devices_of(2), "cpu:1");
  EXPECT_EQ(devices_of(1), "cpu:0");
  EXPECT_EQ(devices_of(4), "cpu:2");
}

TEST(Experiment, AJobHasAsManyDevicesAsATreeOfSums) {
  const auto job_of = [](int processes) {
    return ConfigJob{.processes = processes, .exchange_devices = [processes](const std::vector<DeviceId>&) {
                       return std::vector(static_cast<size_t>(processes), std::vector<DeviceId>(64));
                     }};
  };
  EXPECT_EQ(experiment_of({"batch_size=4096"}, job_of(64)).devices_of_processes.size(), 64u);
  expect_error(ExitCode::config, {"devices", "expected at most 4096 in all, got 4160"},
               [&] { experiment_of({"batch_size=4160"}, job_of(65)); });
}

TEST(Experiment, ProcessesWithPartsOfTheDataHaveWholePipelines) {
  const auto read = [](const std::string& strategy, int devices) {
    const ConfigJob job{.processes = 2, .exchange_devices = [devices](const std::vector<DeviceId>&) {
                          return std::vector(2, std::vector<DeviceId>(static_cast<size_t>(devices)));
                        }};
    return experiment_of({"strategy=" + strategy, "batch_size=24", "dataset.partition=by_process"}, job);
  };
  EXPECT_EQ(read("{name: hybrid, model_parallel: 2}", 4).strategy.stages, 2);
  EXPECT_EQ(read("{name: hybrid, model_parallel: 2, schedule: interleaved}", 2).strategy.stages, 4) << "on two devices";
  expect_error(ExitCode::config, {"dataset", "by_process", "of 4 devices each", "got 2 devices", "partition: global"},
               [&] { read("model_parallel", 2); });
  expect_error(ExitCode::config, {"dataset", "of 2 devices each", "got 3 devices"},
               [&] { read("{name: hybrid, model_parallel: 2}", 3); });
}

TEST(Experiment, ABatchIncludesItsMicroBatches) {
  const auto of_devices = [](const std::vector<std::string>& overrides) {
    const Experiment experiment = experiment_of(overrides);
    return std::pair(experiment.batch_size, experiment.accumulate);
  };
  EXPECT_EQ(of_devices({"batch_size=24", "accumulate=3"}), std::pair(int64_t{24}, int64_t{3}));
  EXPECT_EQ(of_devices({"batch_size=", "per_device_batch_size=4", "accumulate=3"}), std::pair(int64_t{24}, int64_t{3}));
}

TEST(Experiment, PipelinesCutABatchIntoTwoMicroBatchesADevice) {
  const auto strategy = [](const std::vector<std::string>& overrides) { return experiment_of(overrides).strategy; };
  EXPECT_EQ(strategy({"strategy=ddp"}).micro_batches, 1);
  EXPECT_EQ(strategy({"strategy=model_parallel"}).micro_batches, 4);
  EXPECT_EQ(strategy({"strategy={name: model_parallel, micro_batches: 3}"}).micro_batches, 3);
  EXPECT_EQ(strategy({"strategy=model_parallel", "batch_size=3"}).micro_batches, 3) << "one sample each";
  EXPECT_EQ(strategy({"strategy={name: hybrid, model_parallel: 2}", "devices=cpu:0-5"}).micro_batches, 4);
  EXPECT_EQ(strategy({"strategy={name: hybrid, model_parallel: 2}", "devices=cpu:0-5"}).parts, 3);
  const auto around = strategy({"strategy={name: model_parallel, schedule: interleaved}"});
  EXPECT_EQ(around.micro_batches, 4) << "however many stages a device has";
  EXPECT_EQ(around.stages, 4);
  EXPECT_EQ(around.stages_per_device, 2);
}

TEST(Experiment, EveryStrategyTakesEveryKindOfBatchNorm) {
  for (const char* strategy : {"data_parallel", "ddp", "kvstore", "model_parallel", "hybrid"})
    for (const auto mode : parallel::kBatchNormModes) {
      const std::string name(parallel::batch_norm_mode_name(mode));
      const Experiment experiment =
          experiment_of({std::string("strategy=") + strategy, "devices=cpu:0-3", "batch_norm=" + name});
      EXPECT_EQ(experiment.batch_norm, mode) << strategy;
    }
}

TEST(Experiment, TheRateFollowsTheBatchSizeByItsRule) {
  const auto rate = [](const char* rule) {
    return experiment_of({"batch_size=64", "learning_rate=0.1", std::string("lr_rule=") + rule}).learning_rate;
  };
  EXPECT_DOUBLE_EQ(rate("none"), 0.1);
  EXPECT_DOUBLE_EQ(rate("{name: linear, reference_batch_size: 16}"), 0.4);
  EXPECT_DOUBLE_EQ(rate("{name: sqrt, reference_batch_size: 16}"), 0.2);
}

TEST(Experiment, MistakesAreNamed) {
  const auto refused = [](ExitCode code, const std::vector<std::string>& overrides,
                          std::initializer_list<std::string_view> words) {
    SCOPED_TRACE(overrides[0]);
    expect_error(code, words, [&] { experiment_of(overrides); });
  };
  const auto config = ExitCode::config;
  refused(config, {"batch_size=1"}, {"--set: batch_size", "2 devices", "got 1"});
  refused(config, {"batch_size=", "per_device_batch_size="}, {"batch_size", "required"});
  refused(config, {"batch_size=10", "per_device_batch_size=4"}, {"per_device_batch_size", "5 each", "got 4"});
  refused(config, {"batch_size=10", "per_device_batch_size=2", "devices=cpu:0-3"},
          {"batch_size 10 can't be divided evenly among 4 devices, but 8 and 12 can, got 2", "write batch_size: 8"});
  refused(config, {"batch_size=10", "per_device_batch_size=3", "accumulate=2"},
          {"2 devices and 2 micro-batches, but 8 and 12 can, got 3", "write batch_size: 12"});
  refused(config, {"batch_size=3", "per_device_batch_size=2", "devices=cpu:0-3"},
          {"batch_size: a batch needs at least one sample for each of the 4 devices, got 3; use a larger batch"});
  refused(config, {"threads=[1, 2, 3]"}, {"threads", "2 devices", "got 3"});
  refused(config, {"steps=3"}, {"steps", "epochs or steps", "both"});
  refused(config, {"epochs="}, {"epochs", "required"});
  refused(config, {"epochs=0"}, {"epochs", "from 1", "got 0"});
  refused(config, {"epochs=0", "steps=3"}, {"epochs", "from 1", "got 0", "and 1 more"});
  refused(config, {"seed=18446744073709551615"}, {"got 18446744073709551615, more than 9223372036854775807"});
  refused(config, {"lr=0.1"}, {"lr: unknown key, did you mean 'learning_rate'?"});
  refused(config, {"momentum=0.9"}, {"momentum: unknown key, it belongs in a mapping: optimizer.momentum"});
  refused(config, {"precision=BF16"}, {"precision", "did you mean 'bf16'?"});
  refused(config, {"memory_limit=2GB"}, {"write for instance --set memory_limit=2000000000"});
  refused(config, {"hosts={a: 'cpu:0'}", "devices="}, {"hosts: expected the devices of host ", "got those of a"});
  refused(config, {"hosts=a"}, {"--set: hosts: expected a mapping", "write for instance --set 'hosts={a: [cpu:0-1]}'"});
  refused(config, {"hosts={a:cpu:0}"}, {"hosts.a:cpu:0: expected a device list, got ''"});
  refused(config, {"learning_rate=0"}, {"learning_rate", "over 0"});
  refused(config, {"learning_rate="}, {"--set: learning_rate: required, but empty; write --set 'learning_rate="});
  refused(config, {"strategy=single"}, {"single", "exactly one device", "got 2"});
  const std::string deferred = "strategy={name: ddp, overlap: next_forward}";
  refused(config, {deferred, "clip_norm=1"}, {"clip_norm", "next_forward", "norm of all gradients", "got 1"});
  refused(config, {"strategy={name: kvstore, type: dist_async}", "optimizer=lars"},
          {"optimizer", "dist_async", "sgd, adam or adamw", "got lars", "dist_sync"});
  refused(config, {"strategy=local_sgd", "ema=0.9"}, {"ema", "devices of local_sgd", "got 0.9", "choose ddp"});
  refused(config, {"strategy=local_sgd", "shards=4"}, {"shards", "devices of local_sgd", "got 4"});
  refused(config, {"strategy=local_sgd", "batch_norm=sync"}, {"batch_norm", "local_sgd", "expected local, got sync"});
  refused(config, {"strategy={name: local_sgd, optimizer_state: none}"}, {"strategy.optimizer_state", "averaged, own"});
  refused(config, {"strategy={name: local_sgd, outer_momentum: 1}"}, {"strategy.outer_momentum", "got 1"});
  refused(config, {"strategy={name: local_sgd, period: 0}"}, {"strategy.period", "from 1", "got 0"});
  refused(config, {"strategy={name: local_sgd, compress: gzip}"}, {"strategy.compress", "powersgd", "gzip"});
  refused(config, {deferred, "optimizer=lamb"}, {"optimizer", "next_forward", "sgd, adam or adamw", "got lamb"});
  refused(config, {deferred, "shards=4"}, {"shards", "next_forward", "got 4"});
  refused(config, {"strategy={name: ddp, overlap: next_forward, shard_optimizer: true}"},
          {"strategy.overlap", "sharded optimizer", "got next_forward"});
  refused(config, {"strategy={name: ddp, overlap: next_forward, inside: data_parallel}"},
          {"strategy.overlap", "inside: data_parallel", "got next_forward"});
  refused(config, {"strategy={name: ddp, overlap: next}"}, {"strategy.overlap", "true or false", "next_forward"});
  refused(config, {"strategy={name: data_parallel, output_device: 2}"}, {"output_device", "0 to 1", "got 2"});
  refused(config, {"strategy=model_parallel", "devices=cpu:0"}, {"strategy", "at least 2 devices", "got 1"});
  refused(config, {"strategy={name: model_parallel, stages: [1, 1, 1]}"}, {"strategy.stages", "2 stages", "got 3"});
  refused(config, {"strategy={name: model_parallel, stages: {a: 1}}"}, {"strategy.stages", "list of texts", "auto"});
  refused(config, {"strategy={name: model_parallel, micro_batches: 1}"},
          {"strategy.micro_batches", "2 devices needs at least as many micro-batches", "got 1"});
  refused(config, {"strategy={name: model_parallel, micro_batches: 17}"},
          {"strategy.micro_batches", "a batch of 16 has at most 16 micro-batches", "got 17"});
  refused(config, {"strategy={name: model_parallel, micro_batches: 5}", "accumulate=4"},
          {"strategy.micro_batches", "at most 4 micro-batches in 4 accumulations", "got 5"});
  refused(config, {"strategy={name: model_parallel, schedule: 1f2b}"},
          {"strategy.schedule", "1f1b, zero_bubble, interleaved, gpipe", "1f2b"});
  refused(config, {"strategy={name: model_parallel, stages_per_device: 2}"},
          {"strategy.stages_per_device", "schedule: 1f1b has one stage per device", "got 2", "schedule: interleaved"});
  refused(config, {"strategy={name: model_parallel, schedule: interleaved, stages_per_device: 1}"},
          {"strategy.stages_per_device", "at least two stages per device", "got 1", "schedule: 1f1b"});
  refused(config, {"strategy={name: model_parallel, schedule: interleaved, stages: [1, 2]}"},
          {"strategy.stages", "each of the 4 stages of the pipeline, 2 on each of 2 devices", "got 2"});
  refused(config, {"strategy=hybrid", "devices=cpu:0-2"},
          {"model_parallel", "multiple of 2", "at least 4", "got 3; list 4 devices"});
  refused(config, {"strategy={name: fsdp, replicas: 2}"},
          {"strategy.replicas", "2 copies of the weights need a multiple of 2 devices, at least 4", "got 2"});
  refused(config, {"strategy=hybrid"}, {"model_parallel", "at least 4", "got 2"});
  refused(config, {"strategy={name: hybrid, model_parallel: 1}"}, {"strategy.model_parallel", "from 2", "got 1"});
  refused(config, {"strategy={name: hybrid, micro_batches: 9}", "devices=cpu:0-3"},
          {"strategy.micro_batches", "a batch of 16 has at most 8 micro-batches for 2 replicas", "got 9"});
  refused(config, {"strategy=ddq"}, {"strategy", "ddp"});
  refused(config, {"strategy={name: ddp, bucket_mb: 0}"}, {"strategy.bucket_mb"});
  refused(config, {"strategy={name: ddp, shard_optimizer: 2}"}, {"strategy.shard_optimizer", "got 2"});
  refused(config, {"strategy={name: ddp, compress: zip}"}, {"strategy.compress", "powersgd", "got 'zip'"});
  refused(config, {"strategy={name: ddp, compress: {name: powersgd, rank: 0}}"},
          {"strategy.compress.rank", "from 1", "got 0"});
  refused(config, {"strategy={name: ddp, compress: {name: two_bit, threshold: 0}}"},
          {"strategy.compress.threshold", "over 0", "got 0"});
  refused(config, {"strategy={name: ddp, compress: {name: two_bit, rank: 2}}"}, {"strategy.compress.rank"});
  refused(config, {"strategy={name: ddp, compress: bf16, shard_optimizer: true}"},
          {"strategy.compress", "sharded optimizer", "got bf16", "shard_optimizer: false"});
  const std::string measured = "gradient_noise: true}";
  for (const char* name : {"ddp", "fsdp"})
    refused(config, {"strategy={name: " + std::string(name) + ", " + measured, "devices=cpu:0"},
            {"strategy.gradient_noise", "two devices or more, got one", "devices: [cpu:0, cpu:0]"});
  refused(config, {"strategy={name: ddp, overlap: next_forward, " + measured},
          {"strategy.gradient_noise: expected false with overlap: next_forward", "write overlap: true"});
  refused(config, {"strategy={name: ddp, compress: two_bit, " + measured},
          {"strategy.gradient_noise: expected false with compress: two_bit", "write compress: bf16"});
  refused(config, {"strategy={name: fsdp, " + measured, "batch_norm=sync"},
          {"batch_norm: strategy.gradient_noise", "expected local, average or first, got sync"});
  refused(config, {"strategy={name: ddp, inside: data_parallel, " + measured},
          {"strategy.gradient_noise: expected false with inside: data_parallel", "write inside: none"});
  for (const char* option : {"bucket_mb: 5", "first_bucket_mb: 2", "overlap: false", "find_unused: true"}) {
    const std::string key = std::string("strategy.").append(option, std::string_view(option).find(':'));
    refused(config, {std::string("strategy={name: ddp, inside: data_parallel, ") + option + "}"},
            {key + ": expected none with inside: data_parallel", ", got ", "write inside: none"});
  }
  for (const char* option : {"shard_optimizer: true", "compress: bf16"})
    refused(config, {std::string("strategy={name: ddp, inside: data_parallel, ") + option + "}"},
            {"strategy.inside", "need every device as a rank", "got data_parallel"});
  refused(config, {"strategy={name: fsdp, unit_mb: 0}"}, {"strategy.unit_mb", "over 0", "got 0"});
  refused(config, {"strategy={name: fsdp, reshard_after_forward: 8}"}, {"strategy.reshard_after_forward", "got 8"});
  refused(config, {"strategy={name: fsdp, compress: bf16}"}, {"strategy.compress"});
  refused(config, {"strategy=fsdp", "shards=4"}, {"shards", "strategy 'fsdp' doesn't support shards", "got 4"});
  refused(config, {"strategy={name: kvstore, type: devices}"}, {"strategy.type", "device, local", "got 'devices'"});
  refused(config, {"strategy={name: kvstore, type: dist}"}, {"strategy.type", "dist_sync", "got 'dist'"});
  refused(config, {"strategy={name: kvstore, placement: random}"}, {"strategy.placement", "got 'random'"});
  refused(config, {"strategy={name: kvstore, type: local, placement: balanced}"},
          {"strategy.placement", "host memory", "leave it out"});
  refused(config, {"shards=7"}, {"shards", "multiple of 2", "got 7", "shards: 8"});
  refused(config, {"shards=1"}, {"shards", "multiple of 2"});
  refused(config, {"shards=33", "devices=cpu:0-10"}, {"shards", "each of the 11 devices", "shards: 11"});
  refused(config, {"shards=8", "split=[1, 2]"}, {"shards", "no split"});
  refused(config, {"shards=8", "strategy={name: ddp, compress: bf16}"}, {"shards", "compress: none", "got bf16"});
  refused(config, {"shards=8", "batch_norm=sync"}, {"shards", "batch_norm: local, average or first", "got sync"});
  refused(config, {"shards=8", "strategy={name: model_parallel, micro_batches: 2}"}, {"shards", "model_parallel"});
  refused(config, {"name=a/b"}, {"name", "no slash"});
  refused(config, {"precision=fp16"}, {"--set: precision", "CPU workers compute in fp32 or bf16", "got fp16", "GPUs"});
  refused(config, {"precision=tf32"}, {"--set: precision", "CPU workers compute in fp32 or bf16", "got tf32", "GPUs"});
  refused(config, {"accumulate=0"}, {"accumulate", "from 1"});
  refused(config, {"batch_size=3", "accumulate=2"}, {"batch_size", "2 devices and 2 micro-batches", "got 3"});
  refused(config, {"batch_size=16", "per_device_batch_size=8", "accumulate=2"}, {"4 each", "got 8", "batch_size: 32"});
  refused(config, {"lr_rule=linear"}, {"lr_rule", "reference_batch_size"});
  refused(config, {"lr_rule=square"}, {"lr_rule", "sqrt"});
  refused(config, {"clip_norm=0"}, {"clip_norm", "over 0"});
  refused(config, {"ema=1"}, {"ema"});
  refused(config, {"schedule=cosin"}, {"schedule", "cosine"});
  refused(config, {"convolution=measured"}, {"convolution", "CPU workers", "measured", "auto"});
  refused(config, {"recompute=all"}, {"recompute", "auto, batch_norm", "all"});
  refused(config, {"batch_norm=global"}, {"batch_norm", "local, sync, average, first", "global"});
  refused(config, {"batch_norm=2"}, {"batch_norm"});
  refused(config, {"memory_limit=0"}, {"memory_limit"});
  refused(config, {"checkpoint.keep=1"}, {"checkpoint.keep", "at least 2", "got 1"});
  refused(ExitCode::device, {"devices=cpu:64"}, {"cpu:64", "there are", "--devices cpu:0-1"});
  refused(ExitCode::device, {"devices=[cpu:0, cuda:4000]"}, {"cuda:4000", "there are", "--devices cpu:0-1"});
}

TEST(Experiment, WhatResolvesToDataParallelInsideReadsAgain) {
  const auto inside = [](const std::string& more) {
    return experiment_of({"strategy={name: ddp, inside: data_parallel" + more + "}"}).strategy.name;
  };
  EXPECT_EQ(inside(""), "ddp");
  EXPECT_EQ(inside(", bucket_mb: auto, first_bucket_mb: 1, overlap: true, find_unused: false"), "ddp")
      << "as config.yaml of a run has it";
}

TEST(Experiment, NumbersThatCannotBeComputedWithAreOutOfRange) {
  const struct {
    const char *assignment, *range;
  } rows[] = {
      {"strategy={name: ddp, bucket_mb: 1e30}", "strategy.bucket_mb: expected a number over 0 and of at most 1048576"},
      {"strategy={name: ddp, first_bucket_mb: 1e30}", "strategy.first_bucket_mb: expected a number over 0"},
      {"strategy={name: data_parallel, output_device: 4294967296}",
       "output_device: expected an integer from 0 to 4095"},
      {"schedule={name: constant, warmup_epochs: 1e300}",
       "schedule.warmup_epochs: expected a number from 0 to 1.0e+06"},
      {"schedule={name: cosine, min: 1e300}", "schedule.min: expected a number from 0 to 1.0e+30"},
      {"schedule={name: step, gamma: 1e300}", "schedule.gamma: expected a number over 0"},
      {"optimizer={name: sgd, weight_decay: 1e300}", "optimizer.weight_decay: expected a number from 0 to 1.0e+30"},
      {"optimizer={name: adam, weight_decay: 1e300}", "optimizer.weight_decay: expected a number from 0 to 1.0e+30"},
      {"optimizer={name: adamw, eps: 1e300}", "optimizer.eps: expected a number from 1.0e-30 to 1.0e+30"},
      {"init={normal: 1e300}", "init.normal: expected a number over 0"},
      {"model={layers: [flatten, linear: {features: classes, init: {normal: 1e300}}]}",
       "init.normal: expected a number"},
      {"learning_rate=1e300", "learning_rate: expected a number over 0"},
      {"learning_rate=1e-46", "learning_rate: expected a rate of at least 1e-30"},
      {"schedule={name: cosine, min: 0.06}", "schedule: expected its min to be at most the learning rate, 0.05"},
      {"clip_norm=1e300", "clip_norm: expected a number over 0"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.assignment);
    expect_error(ExitCode::config, {row.range, ", got "}, [&] { experiment_of({row.assignment}); });
  }
  expect_error(ExitCode::config, {"steps: expected an integer from 1 to 100000000000, got 9223372036854775807"}, [] {
    experiment_of({"epochs=", "steps=9223372036854775807"});
  });
}

TEST(CudaExperiment, ConvolutionsOfGpusAreMeasuredUnlessDeterministic) {
  if (cuda_devices().empty()) GTEST_SKIP() << "no GPU: " << cuda_absence();
  const auto refused = [](const std::vector<std::string>& overrides, std::initializer_list<std::string_view> words) {
    expect_error(ExitCode::config, words, [&] { experiment_of(overrides); });
  };
  EXPECT_NO_THROW(experiment_of({"devices=[cuda:0]", "convolution=measured"}));
  refused({"devices=[cuda:0]", "convolution=measured", "deterministic=true"}, {"measured with deterministic: true"});
  EXPECT_NO_THROW(experiment_of({"devices=[cuda:0]", "convolution=direct"}));
  for (const char* deterministic : {"deterministic=true", "deterministic=false"})
    EXPECT_NO_THROW(experiment_of({"devices=[cuda:0]", "convolution=winograd", deterministic}));
  for (const char* precision : {"tf32", "bf16", "fp16"})
    refused({"devices=[cuda:0]", "convolution=winograd", std::string("precision=") + precision},
            {"winograd needs fp32 on a GPU", precision, "write convolution: auto"});
}

}  // namespace
}  // namespace dptrain::train
