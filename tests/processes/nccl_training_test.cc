// Processes with GPUs sum by one NCCL communicator over all GPUs, and train as one process with these GPUs does. Where
// NCCL isn't possible, sums go through host memory.
#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <tuple>

#include "comm/communicators.h"
#include "device/cuda_probe.h"
#include "device/with_cuda.h"
#include "processes/job_training.h"
#include "support/hosts.h"

namespace dptrain::testing {
namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool are_simulated(const std::vector<CudaDeviceInfo>& gpus) { return !gpus.empty() && gpus[0].name == "Simulated GPU"; }

/// Sums that aren't recorded are made in one piece.
constexpr const char* kOneBucket = "strategy={name: ddp, bucket_mb: 25}";
const Command kSmallBuckets = strategy("{name: ddp, bucket_mb: 0.5, first_bucket_mb: 0.1}");

/// Training runs on GPUs; a simulated machine has as many as a test asks for.
class NcclJobTest : public JobTrainingTest {
 protected:
  void SetUp() override {
    JobTrainingTest::SetUp();
    needs(fewest_gpus());
  }
  virtual size_t fewest_gpus() const { return 2; }
  void needs(size_t gpus) {
    if (!kWithNccl) GTEST_SKIP() << "NCCL is not built in";
    const auto there = cuda_devices();
    if (!are_simulated(there) && there.size() < gpus)
      GTEST_SKIP() << "needs " << gpus << " GPUs, there are " << there.size() << ": " << cuda_absence();
  }

  /// Trains on these devices, such as "cuda:0-1". NCCL's output tells which ranks meet.
  Command on_gpus(const std::string& name, const std::string& devices, const Command& more) const {
    Command command = {"/usr/bin/env",
                       "NCCL_DEBUG=INFO",
                       "DPTRAIN_CUDA_SIM_DEVICES=4",
                       dptrain_binary(),
                       "--config",
                       "lenet_ddp_2cpu",
                       "--devices",
                       devices,
                       "--out",
                       run(name).string(),
                       "--quiet",
                       "--progress",
                       "none",
                       "--set",
                       "threads="};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  Launched launch_on(const std::vector<std::string>& devices, const Command& more) const {
    std::vector<Command> processes;
    for (const std::string& one : devices) processes.push_back(on_gpus("job", one, more));
    return Launch({.processes = processes,
                   .folder = folder_.path(),
                   .on = {},
                   .flags = {},
                   .grace_s = 1,
                   .timeout_s = 240})
        .wait();
  }
  /// Two processes with a GPU each that train until they are ended, with a checkpoint every 40 steps.
  LaunchOptions endless(const Command& more = {}) const {
    Command settings = {"--set", "epochs=",
                        "--set", "steps=100000",
                        "--set", "eval_every=0",
                        "--set", "dataset.limit=320",
                        "--set", "dataset.test_limit=200",
                        "--set", "checkpoint={every_epochs: 0, every_steps: 40}"};
    settings.insert(settings.end(), more.begin(), more.end());
    return {.processes = {on_gpus("job", "cuda:0", settings), on_gpus("job", "cuda:1", settings)},
            .folder = folder_.path(),
            .on = {},
            .flags = {},
            .grace_s = 2,
            .timeout_s = 120};
  }
  /// Blocks until the processes have written the first checkpoint. By then steps are recorded, and the host sees only
  /// their end.
  void wait_for_checkpoint(Launch& launch) const {
    const auto manifest = run("job") / "checkpoints" / "step-000040" / "manifest.json";
    launch.launcher().wait_until([&] { return std::filesystem::exists(manifest); });
  }
  /// How gradients were added up, from the run's summary.
  json sums_of(const std::string& name) const {
    return json::parse(text_of(run(name) / "summary.json"))["environment"]["gradient_sums"];
  }
  /// Whether a process reports that NCCL formed a world of this many ranks.
  static bool met_by_nccl(const Finished& process, int ranks) {
    return (process.out + process.err).find("nranks " + std::to_string(ranks) + " ") != std::string::npos;
  }
};

struct GpuWay {
  std::string name;
  std::vector<std::string> devices;  ///< for each process
  std::string all;                   ///< the same devices in one process
  int gpus = 2;
  Command settings = {};
  int met = 2;  ///< ranks that meet by NCCL across processes; 0: none
  /// How gradients are added up between the GPUs of one process that has all of them.
  std::string in_one = "nccl";
  bool is_recorded = true;  ///< whether steps are graphs
};

void PrintTo(const GpuWay& way, std::ostream* out) { *out << way.name; }

class NcclJobParityTest : public NcclJobTest, public ::testing::WithParamInterface<GpuWay> {
  size_t fewest_gpus() const override { return static_cast<size_t>(GetParam().gpus); }
};

TEST_P(NcclJobParityTest, EndsAsOneProcessDoes) {
  const GpuWay& way = GetParam();
  Command settings = kLittleData;
  settings.insert(settings.end(), way.settings.begin(), way.settings.end());
  const Finished one = alone(on_gpus("one", way.all, settings));
  ASSERT_EQ(one.exit, 0) << one.err;
  const Launched job = launch_on(way.devices, settings);
  for (const Finished& process : job.processes) {
    ASSERT_EQ(process.exit, 0) << process.err;
    if (way.met > 0)
      EXPECT_TRUE(met_by_nccl(process, way.met)) << process.out << process.err;
    else
      EXPECT_EQ((process.out + process.err).find("nranks"), std::string::npos) << process.out << process.err;
  }
  EXPECT_EQ(job.processes[0].err.find("processes 0 and 1 on ") != std::string::npos, way.gpus == 1)
      << job.processes[0].err;
  const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
  EXPECT_EQ(got["train"]["loss"], expected["train"]["loss"]);
  EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
  EXPECT_EQ(sums_of("one"), (json{{"between_devices", way.in_one}, {"between_processes", nullptr}}));
  // Process 0 writes the summary, and has no two devices that add up with each other.
  EXPECT_EQ(sums_of("job"), (json{{"between_devices", nullptr}, {"between_processes", way.met > 0 ? "nccl" : "mpi"}}));
  // All steps are graphs except the first of each size; an epoch has at most two sizes.
  for (const json& device : got["devices"]) {
    if (way.is_recorded)
      EXPECT_GE(device["graph_steps"], got["step"].get<int>() - 2) << got;
    else
      EXPECT_EQ(device["graph_steps"], 0) << got;
  }
  // The number of collectives is equal too: recorded steps have one per bucket.
  EXPECT_EQ(got["comm"], expected["comm"]);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, NcclJobParityTest,
    ::testing::Values(
        GpuWay{"ddp", {"cuda:0", "cuda:1"}, "cuda:0-1", 2, kSmallBuckets},
        GpuWay{"local", {"cuda:local", "cuda:local"}, "cuda:0-1", 2, kSmallBuckets},
        GpuWay{"three", {"cuda:0", "cuda:1-2"}, "cuda:0-2", 3, kSmallBuckets, 3},
        GpuWay{"accumulate", {"cuda:0", "cuda:1"}, "cuda:0-1", 2, {"--set", "accumulate=2"}},
        GpuWay{"shard_optimizer",
               {"cuda:0", "cuda:1"},
               "cuda:0-1",
               2,
               {"--set", "strategy={name: ddp, shard_optimizer: true}", "--set", "clip_norm=0.5"}},
        GpuWay{"fsdp",
               {"cuda:0", "cuda:1"},
               "cuda:0-1",
               2,
               {"--set", "strategy={name: fsdp, unit_mb: 0.01}", "--set", "clip_norm=0.5"}},
        GpuWay{"fsdp_replicas",
               {"cuda:0", "cuda:1-3"},
               "cuda:0-3",
               4,
               {"--set", "strategy={name: fsdp, unit_mb: 0.01, replicas: 2}", "--set", "clip_norm=0.5"},
               4},
        GpuWay{"kvstore", {"cuda:0", "cuda:1"}, "cuda:0-1", 2, strategy("{name: kvstore, type: device}")},
        GpuWay{"local_sgd", {"cuda:0", "cuda:1"}, "cuda:0-1", 2, strategy("{name: local_sgd, period: 3}")},
        GpuWay{
            "local_sgd_outer_steps",
            {"cuda:0", "cuda:1"},
            "cuda:0-1",
            2,
            strategy("{name: local_sgd, period: 1, warmup_steps: 1, outer_learning_rate: 0.7, outer_momentum: 0.9}")},
        GpuWay{"local_sgd_adasum",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               strategy("{name: local_sgd, period: 3, combine: adasum}"),
               3,
               "gpu_kernels"},
        GpuWay{"local_sgd_bf16",
               {"cuda:0", "cuda:1"},
               "cuda:0-1",
               2,
               strategy("{name: local_sgd, period: 3, compress: bf16}")},
        GpuWay{"local_sgd_powersgd",
               {"cuda:0", "cuda:1"},
               "cuda:0-1",
               2,
               strategy("{name: local_sgd, period: 3, compress: powersgd}")},
        GpuWay{"hybrid", {"cuda:0-1", "cuda:2-3"}, "cuda:0-3", 4, strategy(kLenetReplicas), 2},
        GpuWay{"deterministic",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               {"--set", "deterministic=true", "--set", kOneBucket},
               3,
               "gpu_kernels"},
        GpuWay{"deterministic_shard_optimizer",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               {"--set", "deterministic=true", "--set", "strategy={name: ddp, shard_optimizer: true}"},
               3,
               "gpu_kernels"},
        GpuWay{"deterministic_fsdp",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               {"--set", "deterministic=true", "--set", "strategy=fsdp", "--set", "precision=bf16"},
               3,
               "gpu_kernels"},
        // One replica lies within a process, whose kernels can't be recorded, and one between two.
        GpuWay{"deterministic_fsdp_replicas",
               {"cuda:0", "cuda:1-3"},
               "cuda:0-3",
               4,
               {"--set", "deterministic=true", "--set", "strategy={name: fsdp, unit_mb: 0.01, replicas: 2}"},
               4,
               "gpu_kernels",
               false},
        GpuWay{"deterministic_kvstore",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               {"--set", "deterministic=true", "--set", "strategy={name: kvstore, type: device}"},
               3,
               "gpu_kernels"},
        GpuWay{"bf16",
               {"cuda:0", "cuda:1-2"},
               "cuda:0-2",
               3,
               strategy("{name: ddp, compress: bf16, bucket_mb: 0.5, first_bucket_mb: 0.1}"),
               3,
               "gpu_kernels"},
        GpuWay{"fp16", {"cuda:0", "cuda:1"}, "cuda:0-1", 2, strategy("{name: ddp, compress: fp16}"), 2, "gpu_kernels"},
        GpuWay{"one_gpu", {"cuda:0", "cuda:0"}, "cuda:0,cuda:0", 1, {}, 0, "gpu_kernels"}),
    [](const ::testing::TestParamInfo<GpuWay>& way) { return way.param.name; });

/// Recorded sums have one collective per bucket. Sums that can't be recorded are made after the backward pass, in one
/// piece.
TEST_F(NcclJobTest, SumsInTheTreesOrderAreRecordedWithTheSteps) {
  const auto collectives = [this](const std::string& deterministic, const Command& buckets) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--overwrite", "--set", "deterministic=" + deterministic});
    settings.insert(settings.end(), buckets.begin(), buckets.end());
    const Launched job = launch_on({"cuda:0", "cuda:1"}, settings);
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run("job"))["comm"]["collectives"].get<int>();
  };
  const int of_nccl = collectives("false", kSmallBuckets);
  EXPECT_EQ(collectives("true", kSmallBuckets), of_nccl);
  EXPECT_LT(collectives("true", {"--set", kOneBucket}), of_nccl);
}

/// The number of communicators in which a process has met the ranks of all these GPUs.
int communicators_of(int gpus, const Finished& process) {
  const std::string met = process.out + process.err, of_all = "nranks " + std::to_string(gpus) + " ";
  int communicators = 0;
  for (size_t at = met.find(of_all); at != std::string::npos; at = met.find(of_all, at + 1)) ++communicators;
  return communicators;
}

/// Each GPU is a stage, and activations go from GPU to GPU, between processes and within one. A stage in the middle has
/// four connections, each with its own communicator.
TEST_F(NcclJobTest, StagesHandOnByNccl) {
  needs(3);
  if (IsSkipped()) return;
  for (const std::string schedule : {"1f1b", "zero_bubble", "gpipe"}) {
    SCOPED_TRACE(schedule);
    Command settings = kLittleData;
    settings.insert(
        settings.end(),
        {"--overwrite", "--set",
         "strategy={name: model_parallel, stages: [conv1, conv2, fc1], micro_batches: 4, schedule: " + schedule + "}"});
    const Finished one = alone(on_gpus("one", "cuda:0-2", settings));
    ASSERT_EQ(one.exit, 0) << one.err;
    const Launched job = launch_on({"cuda:0", "cuda:1-2"}, settings);
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    EXPECT_EQ(communicators_of(3, job.processes[0]), 1 + 4) << job.processes[0].err;
    const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
    EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
    EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
    EXPECT_EQ(got["comm"], expected["comm"]);
  }
}

/// Each process scatters its part of a batch over its GPUs. NCCL sums the gradients of all GPUs between graphs.
TEST_F(NcclJobTest, DataParallelInsideProcessesEndsInTheBitsOfDdp) {
  needs(3);
  if (IsSkipped()) return;
  Command settings = kLittleData;
  settings.insert(settings.end(), {"--set", "deterministic=true", "--set"});
  const auto with_strategy = [&](const char* strategy) {
    Command all = settings;
    all.emplace_back(strategy);
    return all;
  };
  const Finished one = alone(on_gpus("one", "cuda:0-2", with_strategy("strategy=ddp")));
  ASSERT_EQ(one.exit, 0) << one.err;
  const Launched job = launch_on({"cuda:0", "cuda:1-2"}, with_strategy("strategy={name: ddp, inside: data_parallel}"));
  for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
  const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
  EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
  EXPECT_EQ(got["train"]["loss"], expected["train"]["loss"]);
  for (const json& device : got["devices"]) EXPECT_GE(device["graph_steps"], got["step"].get<int>() - 2) << got;
}

/// With several stages per GPU, the last GPU's neighbor is the first. Three GPUs have six connections; two GPUs have
/// two, one for activations and one for gradients.
TEST_F(NcclJobTest, StagesOfAGpuHandOnAllAround) {
  needs(3);
  if (IsSkipped()) return;
  for (const auto& [gpus, of_gpu, ways] : {std::tuple(2, 3, 2), {3, 2, 6}}) {
    SCOPED_TRACE(gpus);
    Command settings = kLittleData;
    settings.insert(
        settings.end(),
        {"--overwrite", "--set",
         "model={layers: [flatten, linear: 40, relu, linear: 40, relu, linear: 40, relu, linear: 40, relu, linear: 40, "
         "relu, linear: classes]}",
         "--set",
         "strategy={name: model_parallel, stages: [flatten1, fc2, fc3, fc4, fc5, fc6], micro_batches: 6, schedule: "
         "interleaved, stages_per_device: " +
             std::to_string(of_gpu) + "}"});
    const Finished one = alone(on_gpus("one", "cuda:0-" + std::to_string(gpus - 1), settings));
    ASSERT_EQ(one.exit, 0) << one.err;
    const Launched job = launch_on({"cuda:0", gpus == 2 ? "cuda:1" : "cuda:1-2"}, settings);
    for (const Finished& process : job.processes) ASSERT_EQ(process.exit, 0) << process.err;
    EXPECT_EQ(communicators_of(gpus, job.processes[0]), 1 + ways) << job.processes[0].err;
    const json expected = last_epoch(run("one")), got = last_epoch(run("job"));
    EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
    EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
    EXPECT_EQ(got["comm"], expected["comm"]);
  }
}

/// A plan includes the memory that GPUs need for sums in the tree's order.
TEST_F(NcclJobTest, HoldsForCommunicationWhatAPlanSays) {
  needs(4);
  if (IsSkipped()) return;
  std::ofstream(folder_.path() / "links.yaml") << "hosts: {devices: 1, gbps: 100}\n";
  const auto of = [&](const Command& more, int count = 2) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--overwrite"});
    settings.insert(settings.end(), more.begin(), more.end());
    std::vector<std::string> devices;
    for (int gpu = 0; gpu < count; ++gpu) devices.push_back(fmt::format("cuda:{}", gpu));
    const Launched job = launch_on(devices, settings);
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    Command plan = {dptrain_binary(),
                    "plan",
                    "--json",
                    "--config",
                    "lenet_ddp_2cpu",
                    "--devices",
                    fmt::format("{}xh200", count),
                    "--links",
                    (folder_.path() / "links.yaml").string()};
    plan.insert(plan.end(), {"--set", "threads=", "--set", "dataset.limit=320"});
    plan.insert(plan.end(), more.begin(), more.end());
    const Finished planned = alone(plan);
    EXPECT_EQ(planned.exit, 0) << planned.err;
    const json trained = last_epoch(run("job"))["devices"][0]["memory"];
    const json memory = json::parse(planned.out)["ranks"][0]["memory"];
    EXPECT_EQ(memory["communication"], trained["communication"]) << more.back();
    return memory["communication"].get<int64_t>();
  };
  const int64_t of_nccl = of({"--set", "deterministic=false"});
  EXPECT_GT(of({"--set", "deterministic=true"}), of_nccl);
  of(strategy("{name: ddp, compress: bf16}"));
  of({"--set", "deterministic=true", "--set", "strategy={name: ddp, shard_optimizer: true}"});
  of({"--set", "deterministic=true", "--set", "strategy=fsdp"});
  of({"--set", "deterministic=true", "--set", std::string("strategy=") + kLenetReplicas}, 4);
}

/// Sums in the tree's order are made within each host first; hosts exchange sums of subtrees.
TEST_F(NcclJobTest, SumsOfHostsAreThoseOfOneProcess) {
  needs(4);
  if (IsSkipped()) return;
  const Hosts hosts(2);
  if (!hosts.absence().empty()) GTEST_SKIP() << hosts.absence();
  const auto expect_bits_of_one = [&](const std::vector<std::string>& devices, const std::string& all,
                                      const Command& more) {
    SCOPED_TRACE(all + " " + more.back());
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--overwrite"});
    settings.insert(settings.end(), more.begin(), more.end());
    const Finished one = alone(on_gpus("one", all, settings));
    ASSERT_EQ(one.exit, 0) << one.err;
    std::vector<Command> processes;
    for (const std::string& own : devices) processes.push_back(on_gpus("job", own, settings));
    LaunchOptions options = hosts.launch_options(processes, folder_.path());
    options.timeout_s = 240;
    const Launched job = Launch(options).wait();
    for (const Finished& process : job.processes) {
      ASSERT_EQ(process.exit, 0) << process.err;
      EXPECT_TRUE(met_by_nccl(process, 4)) << process.out << process.err;
    }
    const json got = last_epoch(run("job"));
    EXPECT_EQ(got["weights_hash"], last_epoch(run("one"))["weights_hash"]);
    EXPECT_EQ(got["devices"].back()["host"], "host2");
    EXPECT_EQ(sums_of("job")["between_processes"], "nccl");
  };
  expect_bits_of_one({"cuda:0-1", "cuda:2-3"}, "cuda:0-3", {"--set", "deterministic=true"});
  expect_bits_of_one({"cuda:0-2", "cuda:3"}, "cuda:0-3", {"--set", "deterministic=true"});
  expect_bits_of_one({"cuda:0-1", "cuda:2-3"}, "cuda:0-3", strategy("{name: ddp, compress: bf16}"));
}

TEST_F(NcclJobTest, AStoreOnServersAddsUpAProcesssGpus) {
  const auto trained = [this](const std::string& type, const Command& more) {
    Command settings = kLittleData;
    settings.insert(settings.end(), {"--overwrite", "--set", "dataset.partition=by_process", "--set",
                                     "strategy={name: kvstore, type: " + type + "}"});
    settings.insert(settings.end(), more.begin(), more.end());
    const Launched job = launch_on({"cuda:0-1", "cuda:2-3"}, settings);
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run("job"));
  };
  needs(4);
  if (IsSkipped()) return;
  // Two GPUs' sums have only one order.
  const auto sums = [](const char* between_devices) {
    return json{{"between_devices", between_devices}, {"between_processes", "servers"}};
  };
  const json expected = trained("dist_sync", {"--set", "deterministic=true"});
  EXPECT_EQ(sums_of("job"), sums("host_memory"));
  const json got = trained("dist_device_sync", {});
  EXPECT_EQ(sums_of("job"), sums("nccl"));
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["weights_hash"], expected["weights_hash"]);
  EXPECT_EQ(got["test"]["loss"], expected["test"]["loss"]);
}

/// Servers wait until all workers have said whether a gradient overflowed.
TEST_F(NcclJobTest, AStoreOnServersSkipsWhatOverflowsInHalfPrecision) {
  needs(4);
  if (IsSkipped()) return;
  const auto trained = [this](const std::string& strategy, const std::vector<std::string>& devices) {
    const Launched job =
        launch_on(devices, {"--overwrite", "--set", "epochs=2", "--set", "dataset.limit=320", "--set",
                            "dataset.test_limit=200", "--set", "dataset.partition=by_process", "--set",
                            "precision=fp16", "--set", "deterministic=true", "--set", "strategy=" + strategy});
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    return last_epoch(run("job"));
  };
  for (const std::vector<std::string>& devices :
       {std::vector<std::string>{"cuda:0", "cuda:1"}, {"cuda:0-1", "cuda:2-3"}}) {
    SCOPED_TRACE(devices.front());
    const json ddp = trained("ddp", devices), sync = trained("{name: kvstore, type: dist_sync}", devices),
               on_devices = trained("{name: kvstore, type: dist_device_sync}", devices);
    ASSERT_FALSE(ddp.is_null() || sync.is_null());
    EXPECT_EQ(sync["skipped_steps"], ddp["skipped_steps"]);
    EXPECT_EQ(sync["weights_hash"], on_devices["weights_hash"]);
    // The servers' optimizer rounds as a CPU worker does.
    EXPECT_NEAR(sync["train"]["loss"].get<double>(), ddp["train"]["loss"].get<double>(), 1e-3);
    EXPECT_NEAR(sync["test"]["accuracy"].get<double>(), ddp["test"]["accuracy"].get<double>(), 0.02);
  }
}

TEST_F(NcclJobTest, AStoreOnServersUpdatesByWhateverGpuComes) {
  needs(4);
  if (IsSkipped()) return;
  const auto learns = [this](const std::string& strategy, const std::vector<std::string>& devices) {
    Command settings = kLittleData;
    settings[3] = "dataset.limit=2000";
    settings.insert(settings.end(), {"--overwrite", "--set", "dataset.partition=by_process", "--set",
                                     "strategy={name: kvstore, type: dist_async" + strategy + "}"});
    const Launched job = launch_on(devices, settings);
    for (const Finished& process : job.processes) EXPECT_EQ(process.exit, 0) << process.err;
    const json last = last_epoch(run("job"));
    ASSERT_FALSE(last.is_null());
    // Chance is 0.1. The accuracy depends on how stale gradients were: 0.5 to 0.7 on a quiet machine; 0.33 was seen on
    // a busy one.
    EXPECT_GT(last["test"]["accuracy"], 0.2);
    EXPECT_EQ(last["train"]["samples"], 2000);
    EXPECT_FALSE(last["staleness"].is_null());
  };
  learns("", {"cuda:0-1", "cuda:2-3"});
  learns(", max_staleness: 0", {"cuda:0", "cuda:1-2"});
  // The scheduler and the server are processes without GPUs to train on.
  learns(", servers: 1", {"cuda:0", "cuda:1", "cuda:2", "cuda:3"});
}

TEST_F(NcclJobTest, AKilledProcessEndsTheOtherInTime) {
  Launch launch(endless());
  wait_for_checkpoint(launch);
  ::kill(launch.pid(1), SIGKILL);
  launch.wait_for_ends({0}, 8);
  const Launched launched = launch.wait();
  EXPECT_EQ(launched.processes[0].exit, 75) << launched.processes[0].err;
  EXPECT_TRUE(met_by_nccl(launched.processes[0], 2));
  EXPECT_NE(launched.processes[0].last_error().find(" has died; it was last heard from "), std::string::npos)
      << launched.processes[0].err;
}

/// The training thread hangs in one process, and the other process waits for it, on its host or on its GPU.
TEST_F(NcclJobTest, WhoHangsIsNamedAndNotWhoWaitsForIt) {
  constexpr double kWait_s = 9.8;  // how long ranks wait for each other
  Launch launch(endless({"--set", "batch_size=16", "--set", "timeout_s=4"}));
  wait_for_checkpoint(launch);
  // By then the process is in a step again, and no longer in the checkpoint.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const pid_t pid = launch.pid(1);
  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) GTEST_SKIP() << "this machine lets nobody stop a thread";
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr), 0);
  const auto begun = std::chrono::steady_clock::now();
  launch.wait_for_ends({0}, 2 * kWait_s + 4);
  const double waited_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  // The tracer of a process must be told of its end first.
  for (int status = 0; ::waitpid(pid, &status, __WALL) == pid && !WIFEXITED(status) && !WIFSIGNALED(status);) continue;
  const Launched launched = launch.wait();
  const std::string sentence = launched.processes[0].last_error();
  EXPECT_TRUE(met_by_nccl(launched.processes[0], 2));
  EXPECT_EQ(launched.processes[0].exit, 75) << sentence;
  // If the thread hangs in a wait for the other process, only that process's deadline reports it.
  const bool is_named_by_itself =
      sentence.starts_with("dptrain: process 1 ") && contains(sentence, " made no progress for ");
  const bool is_waited_for =
      sentence.starts_with("dptrain: rank 0 waited 9.8 s in ") && contains(sentence, " for rank 1; ");
  // Once the threads have met for a call, one that hangs before it makes that call leaves the other's GPU waiting. The
  // GPU's deadline is twice as long.
  const bool is_waited_for_by_gpu =
      sentence.starts_with("dptrain: rank 0 (cuda:0) waited over 9.8 s for GPUs of other processes ");
  EXPECT_TRUE(is_named_by_itself || is_waited_for || is_waited_for_by_gpu) << sentence;
  EXPECT_LT(waited_s, is_waited_for_by_gpu ? 2 * kWait_s + 4 : kWait_s + 2.2);
  EXPECT_EQ(launched.processes[1].last_error(), sentence);
}

}  // namespace
}  // namespace dptrain::testing
