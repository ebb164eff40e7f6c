// Strategies on GPUs: replicas on one GPU and on several give bit-identical weights, recorded steps match steps that
// aren't recorded, and a GPU learns what a CPU worker learns.

#include "parallel/gpu_strategies.h"

#include <gtest/gtest.h>

#include "parallel/pipelines.h"
#include "parallel/residual_net.h"

namespace dptrain::parallel {
namespace gpu_strategies_test {

TEST_F(CudaStrategies, AGpuLearnsWhatACpuWorkerDoes) {
  const auto cpu = trained({.name = "single", .devices = 1, .sgd = {.momentum = 0.9}}, 6, 16, 96);
  const auto gpu = trained({.name = "single", .sgd = {.momentum = 0.9}, .list = {kGpu}}, 6, 16, 96);
  ASSERT_EQ(gpu.losses.size(), cpu.losses.size());
  for (size_t step = 0; step < cpu.losses.size(); ++step)
    EXPECT_NEAR(gpu.losses[step], cpu.losses[step], 1e-4 * cpu.losses[step]) << "step " << step + 1;
}

TEST_F(CudaStrategies, RecordedStepsEndInTheBitsOfOthers) {
  // The last three of these steps of 16 samples are replayed; the last batch has 8.
  const auto recorded = trained({.name = "single", .sgd = {.momentum = 0.9}, .list = {kGpu}}, 6, 16, 88);
  const auto done =
      trained({.name = "data_parallel", .sgd = {.momentum = 0.9}, .list = {kGpu}, .records = false}, 6, 16, 88);
  expect_same_bits(recorded, done);
}

TEST_F(CudaStrategies, StepsThatArentToBeRecordedEndInTheSameBits) {
  for (const char* name : {"single", "ddp"}) {
    SCOPED_TRACE(name);
    StrategyOptions options{.name = name, .sgd = {.momentum = 0.9}, .list = {kGpu, kGpu}};
    if (std::string(name) == "single") options.list.pop_back();
    const auto recorded = trained(options, 6, 16, 88);
    EXPECT_TRUE(make_strategy(options)->device(0).can_record());
    options.records = false;
    EXPECT_FALSE(make_strategy(options)->device(0).can_record());
    expect_same_bits(trained(options, 6, 16, 88), recorded);
  }
}

TEST_F(CudaStrategies, RecordedStepsCountAndClipAsOthersDo) {
  // Adam's bias corrections follow from the step's number, which is read on the GPU.
  StrategyOptions options{.name = "single",
                          .adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true},
                          .clip_norm = 0.5,
                          .average_decay = 0.5,
                          .micro_batches = 3,
                          .list = {kGpu}};
  const auto recorded = trained(options, 6, 16, 88);
  options.name = "data_parallel";
  options.records = false;
  const auto done = trained(options, 6, 16, 88);
  expect_same_bits(recorded, done);
  const auto cpu = trained(
      {.name = "single", .devices = 1, .adam = options.adam, .clip_norm = options.clip_norm, .micro_batches = 3}, 6, 16,
      88);
  for (size_t step = 0; step < 6; ++step)
    EXPECT_NEAR(recorded.losses[step], cpu.losses[step], 1e-3 * cpu.losses[step]) << "step " << step + 1;
}

/// Sums of squares of whole parameters are part of the recorded step. Sums that ranks hold in parts are exact.
TEST_F(CudaStrategies, OptimizersByLayersEndInTheSameBitsEverywhere) {
  StrategyOptions by_layers[2] = {{.clip_norm = 0.5}, {.clip_norm = 0.5}};
  by_layers[0].lars = {.weight_decay = 0.1, .trust_coefficient = 0.1};
  by_layers[1].lamb = {.adapts_vectors = true};
  for (StrategyOptions& options : by_layers)
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(::testing::Message() << optimizer_of(options).name << ", precision " << static_cast<int>(precision));
      options.precision = precision;
      options.list = {kGpu};
      options.name = "single";
      const auto recorded = trained(options, 6, 16, 88);
      options.name = "data_parallel";
      options.records = false;
      expect_same_bits(recorded, trained(options, 6, 16, 88));
      options.records = true;
      options.list = {kGpu, kGpu, kGpu};
      options.name = "ddp";
      const auto ddp = trained(options, 4, 16, 56);
      for (const char* name : {"ddp_sharded", "fsdp", "kvstore"}) {
        options.name = name;
        expect_same_bits(trained(options, 4, 16, 56), ddp);
      }
      // In host memory a CPU worker makes the update, and it rounds differently.
      options.name = "kvstore_local";
      const auto local = trained(options, 4, 16, 56);
      for (size_t step = 0; step < ddp.losses.size(); ++step)
        EXPECT_NEAR(local.losses[step], ddp.losses[step], 1e-3 * ddp.losses[step]) << "step " << step + 1;
    }
}

TEST_F(CudaStrategies, ReplicasOnOneGpuAndOnSeveralEndInTheSameBits) {
  const auto gpus = cuda_devices();
  std::vector<DeviceId> apart;
  for (int rank = 0; rank < 3; ++rank)
    apart.push_back({DeviceKind::cuda, gpus[static_cast<size_t>(rank) % gpus.size()].index});
  const std::vector<DeviceId> together = {kGpu, kGpu, kGpu};
  // 16 samples are uneven on 3 devices, and the last batch of 56 samples has 8.
  const auto ddp = trained({.name = "ddp", .sgd = {.momentum = 0.9}, .list = together}, 4, 16, 56);
  expect_same_bits(trained({.name = "ddp", .sgd = {.momentum = 0.9}, .list = apart}, 4, 16, 56).state, ddp.state);
  for (const int output_rank : {0, 2})
    expect_same_bits(
        trained({.name = "data_parallel", .output_rank = output_rank, .sgd = {.momentum = 0.9}, .list = together}, 4,
                16, 56)
            .state,
        ddp.state);
  const auto single = trained({.name = "single", .sgd = {.momentum = 0.9}, .list = {kGpu}}, 4, 16, 56);
  for (size_t step = 0; step < 4; ++step)
    EXPECT_NEAR(ddp.losses[step], single.losses[step], 1e-5 * single.losses[step]);
}

/// The steps are recorded; some have an averaging between their two parts.
TEST_F(CudaStrategies, ReplicasThatTrainByThemselvesEndInTheBitsOfStepsThatArentRecorded) {
  for (const auto& [precision, combination, period] : {std::tuple(Precision::fp32, Combination::mean, 1),
                                                       {Precision::fp32, Combination::mean, 3},
                                                       {Precision::bf16, Combination::mean, 1},
                                                       {Precision::bf16, Combination::mean, 3},
                                                       {Precision::fp32, Combination::adasum, 1},
                                                       {Precision::bf16, Combination::adasum, 3}}) {
    SCOPED_TRACE(::testing::Message() << "period " << period << ", precision " << static_cast<int>(precision)
                                      << (combination == Combination::adasum ? ", Adasum" : ""));
    StrategyOptions options{.name = "local_sgd",
                            .local_sgd = {.averaging = {.period = period},
                                          .combination = combination,
                                          .outer = {.learning_rate = 0.7, .momentum = 0.5}},
                            .sgd = {.momentum = 0.9},
                            .list = {kGpu, kGpu, kGpu},
                            .precision = precision};
    const auto recorded = trained(options, 7, 16, 104);  // the last batch has 8
    options.records = false;
    expect_same_bits(recorded, trained(options, 7, 16, 104));
    if (precision == Precision::bf16) continue;
    options.list.clear();
    options.devices = 3;
    const auto cpu = trained(options, 7, 16, 104);
    for (size_t step = 0; step < 7; ++step)
      EXPECT_NEAR(recorded.losses[step], cpu.losses[step], 1e-3 * cpu.losses[step]) << "step " << step + 1;
  }
}

/// Averagings are compressed in the memory of the gradients, which recorded steps write.
TEST_F(CudaStrategies, CompressedAveragingsEndInTheBitsOfStepsThatArentRecorded) {
  using Method = CompressionOptions::Method;
  for (const Method method : {Method::bf16, Method::fp16, Method::powersgd, Method::two_bit}) {
    SCOPED_TRACE(compression_name(method));
    StrategyOptions options{.name = "local_sgd",
                            .local_sgd = {.averaging = {.period = 3}, .compress = {.method = method}},
                            .sgd = {.momentum = 0.9},
                            .list = {kGpu, kGpu, kGpu}};
    const auto recorded = trained(options, 7, 16, 104);
    options.records = false;
    expect_same_bits(recorded, trained(options, 7, 16, 104));
  }
}

TEST_F(CudaStrategies, DealtOutUpdatesEndInTheBitsOfDdp) {
  const std::vector<DeviceId> list = {kGpu, kGpu, kGpu};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    StrategyOptions options{.adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true},
                            .clip_norm = 0.5,
                            .list = list,
                            .precision = precision};
    const auto ddp = trained(options, 4, 16, 56);
    for (const char* name : {"ddp_sharded", "fsdp", "kvstore", "kvstore_round_robin"}) {
      SCOPED_TRACE(::testing::Message() << name << ", precision " << static_cast<int>(precision));
      options.name = name;
      const auto dealt = trained(options, 4, 16, 56);
      expect_same_bits(dealt, ddp);
    }
    // In host memory a CPU worker makes the update, and it rounds differently.
    options.name = "kvstore_local";
    const auto local = trained(options, 4, 16, 56);
    for (size_t step = 0; step < ddp.losses.size(); ++step)
      EXPECT_NEAR(local.losses[step], ddp.losses[step], 1e-3 * ddp.losses[step]) << "step " << step + 1;
  }
}

TEST_F(CudaStrategies, PipelinesEndInTheBitsOfOneGpu) {
  const auto gpus = cuda_devices();
  const DeviceId other = {DeviceKind::cuda, gpus[gpus.size() > 1 ? 1 : 0].index};
  // The last batch of 56 samples has 8, in smaller micro-batches.
  const auto single = trained(
      {.name = "single", .sgd = {.momentum = 0.9}, .clip_norm = 0.5, .micro_batches = 4, .list = {kGpu}}, 4, 16, 56);
  StrategyOptions cut{
      .name = "model_parallel", .sgd = {.momentum = 0.9}, .clip_norm = 0.5, .micro_batches = 4, .list = {kGpu, other}};
  cut.pipeline = {.cut = {.entries = {"1", "2"}}, .micro_batches = 4};
  for (const auto schedule : kSchedulesOfOneStage) {
    SCOPED_TRACE(schedule_name(schedule));
    cut.pipeline.schedule = schedule;
    const auto several = trained(cut, 4, 16, 56);
    expect_same_bits(several, single);
  }
}

TEST_F(CudaStrategies, SeveralStagesOfAGpuEndInTheBitsOfOneGpu) {
  const auto gpus = cuda_devices();
  const DeviceId other = {DeviceKind::cuda, gpus[gpus.size() > 1 ? 1 : 0].index};
  const auto net = [](StrategyOptions options) {
    options.net = net_of_layers(
        "[conv: {channels: 8, kernel: 3}, relu, max_pool: 2, flatten, linear: 32, relu, linear: classes]");
    return options;
  };
  const auto single =
      trained(net({.name = "single", .sgd = {.momentum = 0.9}, .clip_norm = 0.5, .micro_batches = 4, .list = {kGpu}}),
              4, 16, 56);
  StrategyOptions cut = net({.name = "model_parallel",
                             .sgd = {.momentum = 0.9},
                             .clip_norm = 0.5,
                             .micro_batches = 4,
                             .list = {kGpu, other}});
  cut.pipeline = {.cut = {.entries = {"conv1", "flatten1", "fc1", "fc2"}},
                  .schedule = PipelineSchedule::interleaved,
                  .stages_per_device = 2,
                  .micro_batches = 4};
  expect_same_bits(trained(cut, 4, 16, 56), single);
}

/// The net has a gradient that is a sum over two readers; a product adds to it in its epilogue and rounds once. That
/// holds also where gradients of weights are still to be computed from the sum.
TEST_F(CudaStrategies, SchedulesOfAPipelineEndInTheSameBitsInHalfPrecision) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(precision == Precision::bf16 ? "bf16" : "fp16");
    const auto trained_by = [&](PipelineOptions schedule) {
      StrategyOptions options{
          .name = "model_parallel", .micro_batches = 4, .list = {kGpu, kGpu}, .precision = precision};
      options.pipeline = std::move(schedule);
      options.pipeline.micro_batches = 4;
      const auto strategy = of_layers(
          "[flatten, linear: 32, residual: {layers: [linear: 32, relu, linear: 32]}, linear: classes]", options);
      auto losses = train(*strategy, digits(48, 10), 3, 16, 0.05, 4);
      return Trained{strategy->state_dict(), std::move(losses)};
    };
    const Trained expected = trained_by({.cut = {.entries = {"flatten1", "fc1"}}});
    expect_same_bits(trained_by({.cut = {.entries = {"flatten1", "fc1"}}, .schedule = PipelineSchedule::zero_bubble}),
                     expected);
    expect_same_bits(trained_by({.cut = {.entries = {"1", "1", "1", "1"}},
                                 .schedule = PipelineSchedule::interleaved,
                                 .stages_per_device = 2}),
                     expected);
  }
}

constexpr const char* kCompressed[] = {"ddp_bf16", "ddp_fp16", "ddp_powersgd", "ddp_two_bit"};

TEST_F(CudaStrategies, CompressedGradientsAreLearnedFrom) {
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    StrategyOptions options{.sgd = {.momentum = 0.9}, .list = {kGpu, kGpu, kGpu}, .precision = precision};
    const auto ddp = trained(options, 4, 16, 56);
    for (const char* name : kCompressed) {
      SCOPED_TRACE(::testing::Message() << name << ", precision " << static_cast<int>(precision));
      options.name = name;
      const auto compressed = trained(options, 4, 16, 56);
      for (size_t step = 0; step < ddp.losses.size(); ++step)
        EXPECT_NEAR(compressed.losses[step], ddp.losses[step], 0.05 * ddp.losses[step]) << "step " << step + 1;
      expect_same_bits(trained(options, 4, 16, 56).state, compressed.state);
    }
  }
}

TEST_F(CudaStrategies, BatchStatisticsOfAllGpusAreThoseOfOne) {
  StrategyOptions options{.name = "single",
                          .net = residual_net(),
                          .sgd = {.momentum = 0.9},
                          .micro_batches = 2,
                          .list = {kGpu},
                          .batch_norm = BatchNormMode::sync};
  const auto single = trained(options, 3, 8, 18);
  for (const std::vector<DeviceId>& list :
       {std::vector<DeviceId>{kGpu, kGpu, kGpu}, {kGpu, {DeviceKind::cpu, 0}, kGpu}}) {
    options.list = list;
    options.name = "ddp";
    const auto ddp = trained(options, 3, 8, 18);  // the last step has two samples
    for (size_t step = 0; step < 3; ++step)
      EXPECT_NEAR(ddp.losses[step], single.losses[step], 1e-4 * single.losses[step]) << "step " << step + 1;
    for (size_t t = 0; t < ddp.state.size(); ++t)
      for (size_t i = 0; i < ddp.state[t].values.size(); ++i)
        ASSERT_NEAR(ddp.state[t].values[i], single.state[t].values[i], 1e-3) << ddp.state[t].name;
    options.name = "data_parallel";
    const auto gathered = trained(options, 3, 8, 18);
    if (list[1].kind == DeviceKind::cuda) expect_same_bits(gathered.state, ddp.state);
    for (size_t step = 0; step < 3; ++step)
      EXPECT_NEAR(gathered.losses[step], single.losses[step], 1e-4 * single.losses[step]) << "step " << step + 1;
  }
}

/// Exchanges of a new size aren't recorded on any device of the list, even if some could record them.
TEST_F(CudaStrategies, ShardedWeightsAreOfGpusAndCpuWorkers) {
  StrategyOptions options{.name = "ddp", .net = residual_net(), .list = {kGpu, {DeviceKind::cpu, 0}, kGpu}};
  options.adam = optim::AdamSettings{};
  const auto ddp = trained(options, 3, 8, 18);
  options.name = "fsdp";
  expect_same_bits(trained(options, 3, 8, 18), ddp);
}

TEST_F(CudaStrategies, ReplicasOfShardedWeightsEndInTheBitsOfDdp) {
  for (const std::vector<DeviceId>& list :
       {std::vector<DeviceId>(4, kGpu), {kGpu, {DeviceKind::cpu, 0}, kGpu, {DeviceKind::cpu, 1}}}) {
    StrategyOptions options{.name = "ddp", .net = residual_net(), .list = list};
    options.adam = optim::AdamSettings{};
    const auto ddp = trained(options, 3, 8, 18);
    options.name = "fsdp";
    options.fsdp = {.unit_mb = 0.01, .replicas = 2};
    expect_same_bits(trained(options, 3, 8, 18), ddp);
  }
}

TEST_F(CudaStrategies, RunningStatisticsAreSharedBesideRecordedSteps) {
  for (const BatchNormMode mode : {BatchNormMode::average, BatchNormMode::first}) {
    SCOPED_TRACE(batch_norm_mode_name(mode));
    StrategyOptions options{.net = residual_net(), .list = {kGpu, kGpu}, .batch_norm = mode};
    const auto recorded = trained(options, 5, 16, 80);  // the last three are replayed
    options.name = "data_parallel";
    options.records = false;
    const auto done = trained(options, 5, 16, 80);
    expect_same_bits(recorded.state, done.state);
  }
}

TEST_F(CudaStrategies, HalfPrecisionLearnsAlike) {
  const auto full = trained({.name = "single", .list = {kGpu}}, 6, 16, 96);
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(static_cast<int>(precision));
    for (const char* name : {"single", "ddp", "data_parallel"}) {
      const std::vector<DeviceId> list(name == std::string("single") ? 1 : 2, kGpu);
      const auto half = trained({.name = name, .list = list, .precision = precision}, 6, 16, 96);
      for (size_t step = 0; step < full.losses.size(); ++step)
        EXPECT_NEAR(half.losses[step], full.losses[step], 0.02 * full.losses[step]) << name << ", step " << step + 1;
    }
  }
}

}  // namespace gpu_strategies_test
}  // namespace dptrain::parallel
