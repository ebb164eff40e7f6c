// Models cut into stages match one device with the same micro-batches bit for bit, with any schedule. Replicas of a
// pipeline match ddp.
#include <gtest/gtest.h>

#include "models/frozen.h"
#include "parallel/pipelines.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace pipeline_test {

TEST(Pipeline, LenetEndsInTheBitsOfOneDevice) {
  for (const int64_t micro_batches : {4, 8}) {
    const Trained one = trained(*make_strategy(kSingle), micro_batches);
    for (const std::vector<std::string>& stages :
         std::vector<std::vector<std::string>>{{"1", "2"}, {"2", "1"}, {"1", "1", "1"}, {"conv1", "fc1"}})
      for (const auto schedule : kSchedulesOfOneStage) {
        SCOPED_TRACE(::testing::Message() << stages.size() << " stages, the second from " << stages[1] << ", "
                                          << schedule_name(schedule) << ", " << micro_batches << " micro-batches");
        expect_same_bits(trained(*make_strategy(pipeline(stages, schedule, micro_batches)), micro_batches), one);
      }
  }
}

TEST(Pipeline, ANetWithBatchNormsEndsInTheBitsOfOneDevice) {
  const Trained one = trained(*residual_net(kSingle), 4);
  for (const std::vector<std::string>& stages : std::vector<std::vector<std::string>>{
           {"avg_pool1", "max_pool1"}, {"avg_pool1", "conv1", "conv2"}, {"avg_pool1", "bn1", "flatten1", "fc2"}})
    for (const auto schedule : kSchedulesOfOneStage) {
      SCOPED_TRACE(::testing::Message() << stages.size() << " stages, " << schedule_name(schedule));
      expect_same_bits(trained(*residual_net(pipeline(stages, schedule, 4)), 4), one);
    }
}

/// Stages of the net below, and stages per device.
const std::vector<std::pair<std::vector<std::string>, int>> kInterleavedCuts = {
    {{"avg_pool1", "conv1", "max_pool1", "flatten1"}, 2},
    {{"avg_pool1", "conv1", "bn1", "max_pool1", "flatten1", "fc2"}, 2},
    {{"avg_pool1", "conv1", "bn1", "max_pool1", "flatten1", "fc2"}, 3}};

TEST(Pipeline, SeveralStagesADeviceEndInTheBitsOfOne) {
  // Rounds have two or three micro-batches, and some last rounds are short.
  for (const int64_t micro_batches : {3, 4, 8}) {
    const Trained one = trained(*residual_net(kSingle), micro_batches);
    for (const auto& [stages, of_device] : kInterleavedCuts) {
      SCOPED_TRACE(::testing::Message() << stages.size() << " stages, " << of_device << " a device, " << micro_batches
                                        << " micro-batches");
      expect_same_bits(trained(*residual_net(interleaved(stages, of_device, micro_batches)), micro_batches), one);
    }
  }
}

/// With any of these numbers, devices never wait for each other in a circle, in steps or in evaluations, and messages
/// arrive in the order in which they are sent.
TEST(Pipeline, NoNumberOfStagesAndMicroBatchesMakesDevicesWaitForEver) {
  for (const auto& [devices, of_device] : {std::pair{2, 4}, {3, 3}, {5, 2}, {8, 2}}) {
    std::string layers = "flatten";
    for (int stage = 1; stage < devices * of_device; ++stage) layers += ", linear: 8, tanh";
    layers = "[" + layers + ", linear: classes]";
    std::vector<std::string> stages = {"flatten1"};
    for (int stage = 1; stage < devices * of_device; ++stage) stages.push_back("fc" + std::to_string(stage + 1));
    const auto cut = of_layers(layers, interleaved(stages, of_device, devices)), one = of_layers(layers, kSingle);
    const Datasets data = digits(64, 1000);
    for (int64_t micro_batches = 1; micro_batches <= 2 * devices + 1; ++micro_batches) {
      SCOPED_TRACE(::testing::Message() << devices << " devices, " << of_device << " stages each, " << micro_batches
                                        << " micro-batches");
      EXPECT_EQ(train(*cut, data, 1, 64, 0.05, micro_batches), train(*one, data, 1, 64, 0.05, micro_batches));
    }
    const EvaluationWatch watch{.stopped = [] { return false; }};
    EXPECT_EQ(cut->evaluate(*data.test, watch)->mean_loss(), one->evaluate(*data.test, watch)->mean_loss());
    expect_same_bits(cut->state_dict(), one->state_dict());
  }
}

TEST(Pipeline, SeveralStagesADeviceClipAverageAndGoOnLikeOne) {
  const auto with = [](StrategyOptions options) {
    options.adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true};
    options.clip_norm = 0.5;
    options.average_decay = 0.5;
    return options;
  };
  const auto single = residual_net(with(kSingle));
  trained(*single, 4, 2);
  const TrainingState half = single->training_state();
  const Trained end = trained(*single, 4, 2);
  const Datasets data = digits(10, 200);
  const Score by_average = *single->evaluate(*data.test, {.stopped = [] { return false; }});
  for (const auto& [stages, of_device] : kInterleavedCuts) {
    SCOPED_TRACE(::testing::Message() << stages.size() << " stages, " << of_device << " a device");
    const auto cut = residual_net(with(interleaved(stages, of_device, 4)));
    trained(*cut, 4, 2);
    const TrainingState state = cut->training_state();
    expect_same_bits(state.model, half.model);
    expect_same_bits(state.optimizer, half.optimizer);
    expect_same_bits(state.average, half.average);
    const auto resumed = residual_net(with(interleaved(stages, of_device, 4)));
    resumed->restore(half);
    expect_same_bits(trained(*resumed, 4, 2), end);
    EXPECT_EQ(resumed->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss(), by_average.mean_loss());
  }
}

/// Two accumulations of three micro-batches each: rounds span both.
TEST(Pipeline, SeveralStagesADeviceAccumulateLikeOne) {
  const Trained one = trained(*residual_net(kSingle), 6);
  const auto& [stages, of_device] = kInterleavedCuts[0];
  expect_same_bits(trained(*residual_net(interleaved(stages, of_device, 3)), 6), one);
}

TEST(Pipeline, ReplicasOfSeveralStagesADeviceEndInTheBitsOfDdp) {
  for (const int replicas : {2, 3}) {
    SCOPED_TRACE(replicas);
    StrategyOptions ddp{.name = "ddp", .devices = replicas, .sgd = {.momentum = 0.9}};
    const auto& [stages, of_device] = kInterleavedCuts[0];
    expect_same_bits(trained(*residual_net(of_replicas(interleaved(stages, of_device, 4), replicas)), 4),
                     trained(*residual_net(ddp), 4));
  }
}

/// No gradients are sent to the frozen stages, although their devices have trained stages too.
TEST(Pipeline, FrozenStagesBesideTrainedOnesAreSentNoGradients) {
  const std::vector<std::string> stages = {"flatten1", "fc2", "fc3", "fc4"};
  const auto net = [](StrategyOptions options) {
    const std::string layers = "[flatten, linear: 20, tanh, linear: 20, tanh, linear: 20, tanh, linear: classes]";
    options.net = models::with_frozen(net_of_layers(layers), {"fc1", "fc2"}, "net");
    return make_strategy(options);
  };
  const auto cut = net(interleaved(stages, 2, 4));
  expect_same_bits(trained(*cut, 4), trained(*net(kSingle), 4));
  // A step has 26 samples. Activations of 20 numbers cross three times, and gradients come back from the last stage
  // alone.
  cut->take_costs(0), cut->take_costs(1);
  train(*cut, digits(26, 10), 1, 26, 0.05, 4);
  EXPECT_EQ(cut->take_costs(0).communication.bytes, 4 * 26 * 20 * 2);
  EXPECT_EQ(cut->take_costs(1).communication.bytes, 4 * 26 * 20 * 2);
}

TEST(Pipeline, AccumulationGoesThroughThePipelineToo) {
  // Two accumulations of four micro-batches each.
  const Trained one = trained(*make_strategy(kSingle), 8);
  for (const auto schedule : kSchedulesOfOneStage)
    expect_same_bits(trained(*make_strategy(pipeline({"1", "2"}, schedule, 4)), 8), one);
}

TEST(Pipeline, UpdatesThatNeedAllGradientsSeeThoseOfAllStages) {
  const auto with = [](StrategyOptions options) {
    options.adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true};
    options.clip_norm = 0.5;
    options.average_decay = 0.5;
    options.label_smoothing = 0.1;
    return options;
  };
  const auto single = make_strategy(with(kSingle));
  const Trained one = trained(*single, 4);
  const Datasets data = digits(10, 200);
  const Score by_average = *single->evaluate(*data.test, {.stopped = [] { return false; }});
  const auto cut = make_strategy(with(pipeline({"1", "1", "1"}, k1f1b, 4)));
  const Trained several = trained(*cut, 4);
  expect_same_bits(several, one);
  EXPECT_EQ(cut->evaluate(*data.test, {.stopped = [] { return false; }})->mean_loss(), by_average.mean_loss());
  expect_same_bits(cut->state_dict(), several.state);
}

TEST(Pipeline, EvaluatesToTheSameNumbers) {
  const Datasets data = digits(kSamples, 333);
  const auto score_of = [&](Strategy& strategy) {
    train(strategy, data, 2, kBatch, 0.05, 4);
    return *strategy.evaluate(*data.test, {.stopped = [] { return false; }});
  };
  const Score one = score_of(*residual_net(kSingle));
  const Score several = score_of(*residual_net(pipeline({"avg_pool1", "bn1", "flatten1"}, k1f1b, 4)));
  EXPECT_EQ(several.samples, 333);
  EXPECT_EQ(several.outputs[0].loss_sum, one.outputs[0].loss_sum);
  EXPECT_EQ(several.outputs[0].correct, one.outputs[0].correct);
  EXPECT_EQ(several.outputs[0].counted, one.outputs[0].counted);
}

TEST(Pipeline, EvaluationStopsBetweenBlocks) {
  const Datasets data = digits(10, 2000);
  const auto strategy = make_strategy(pipeline({"1", "2"}, k1f1b, 2));
  int asked = 0;
  EXPECT_FALSE(strategy->evaluate(*data.test, {.stopped = [&] { return ++asked > 2; }}).has_value());
  EXPECT_EQ(asked, 3) << "it isn't asked again";
  EXPECT_TRUE(strategy->evaluate(*data.test, {.stopped = [] { return false; }}).has_value()) << "it can be asked again";
}

TEST(Pipeline, GoesOnWhereOtherStrategiesWereAndTheyWhereItWas) {
  const auto options_of = [](StrategyOptions options) {
    options.adam = optim::AdamSettings{};
    options.average_decay = 0.9;
    return options;
  };
  const auto single = [&] { return residual_net(options_of(kSingle)); };
  const auto cut = [&] { return residual_net(options_of(pipeline({"avg_pool1", "bn1", "flatten1"}, kGpipe, 4))); };
  const auto on = [](Strategy& strategy) { return trained(strategy, 4, 2); };
  const auto whole = single();
  on(*whole);
  const TrainingState half = whole->training_state();
  const Trained end = on(*whole);
  const auto from = [&](std::unique_ptr<Strategy> first, std::unique_ptr<Strategy> second) {
    on(*first);
    const TrainingState state = first->training_state();
    expect_same_bits(state.model, half.model);
    expect_same_bits(state.optimizer, half.optimizer);
    expect_same_bits(state.average, half.average);
    second->restore(state);
    expect_same_bits(on(*second), end);
  };
  from(cut(), single());
  from(single(), cut());
}

TEST(Pipeline, ReplicasEndInTheBitsOfDdp) {
  // In four micro-batches, a batch of 7 leaves one of two replicas without samples, and one of three several times.
  for (const int replicas : {2, 3}) {
    StrategyOptions ddp{.name = "ddp", .devices = replicas, .sgd = {.momentum = 0.9}};
    const Trained lenet = trained(*make_strategy(ddp), 4), residual = trained(*residual_net(ddp), 4);
    for (const auto schedule : kSchedulesOfOneStage) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, " << schedule_name(schedule));
      expect_same_bits(trained(*make_strategy(of_replicas(pipeline({"1", "2"}, schedule, 4), replicas)), 4), lenet);
      expect_same_bits(trained(*residual_net(of_replicas(pipeline({"avg_pool1", "conv2"}, schedule, 4), replicas)), 4),
                       residual);
    }
  }
}

TEST(Pipeline, ReplicasClipInTheBitsOfDdp) {
  StrategyOptions ddp{.name = "ddp", .devices = 2, .sgd = {.momentum = 0.9}};
  const Trained unclipped = trained(*residual_net(ddp), 4);
  ddp.clip_norm = 0.1;
  const Trained clipped = trained(*residual_net(ddp), 4);
  EXPECT_NE(clipped.losses, unclipped.losses) << "it does clip";
  for (const std::vector<std::string>& stages :
       std::vector<std::vector<std::string>>{{"avg_pool1", "conv2"}, {"avg_pool1", "bn1", "flatten1", "fc2"}}) {
    SCOPED_TRACE(stages.size());
    StrategyOptions hybrid = of_replicas(pipeline(stages, k1f1b, 4), 2);
    hybrid.clip_norm = ddp.clip_norm;
    expect_same_bits(trained(*residual_net(hybrid), 4), clipped);
  }
}

TEST(Pipeline, ReplicasEvaluateByTheFirstOnesStatisticsAndTheAverage) {
  const Datasets data = digits(kSamples, 333);
  const auto score_of = [&](Strategy& strategy) {
    train(strategy, data, 2, kBatch, 0.05, 4);
    return strategy.evaluate(*data.test, {.stopped = [] { return false; }})->outputs[0].loss_sum;
  };
  StrategyOptions ddp{.name = "ddp", .devices = 2}, hybrid = of_replicas(pipeline({"avg_pool1", "conv2"}, k1f1b, 4), 2);
  hybrid.sgd = ddp.sgd;
  ddp.average_decay = hybrid.average_decay = 0.5;
  EXPECT_EQ(score_of(*residual_net(hybrid)), score_of(*residual_net(ddp)));
}

TEST(Pipeline, TheCutByMeasuredTimeChangesNoBit) {
  StrategyOptions automatic = pipeline({"1", "1", "1"}, k1f1b, 4);
  automatic.pipeline.cut = {};
  expect_same_bits(trained(*residual_net(automatic), 4), trained(*residual_net(kSingle), 4));
}

TEST(Pipeline, AStageThatFailsEndsAllWithItsCause) {
  // The second stage has the linear layer and no memory for its optimizer's work; the first stage waits for it.
  StrategyOptions options = pipeline({"1", "2"}, k1f1b, 4);
  const auto strategy = make_strategy(options);
  const auto& allocator = strategy->device(1).allocator();
  options.memory_limit_bytes = allocator.in_use().total_bytes() + 4096;
  testing::expect_error(ExitCode::device, {"rank 1 (cpu:1), step 1", "a limit of"},
                        [&] { trained(*make_strategy(options), 4); });
}

}  // namespace pipeline_test
}  // namespace dptrain::parallel
