// local_sgd: each replica trains independently on its part of the batches, as one device would. From time to time all
// replicas are averaged, and the mean is what evaluations and checkpoints see.
#include "parallel/local_sgd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "parallel/digits.h"
#include "parallel/residual_net.h"
#include "parallel/trained_state.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace local_sgd_test {

constexpr int64_t kBatch = 32;
constexpr double kRate = 0.05;
constexpr int kReplicas = 2;

StrategyOptions options_with(const AveragingSteps& averaging, int devices = kReplicas) {
  return {.name = "local_sgd",
          .net = residual_net(),
          .devices = devices,
          .local_sgd = {.averaging = averaging},
          .sgd = {.momentum = 0.9, .weight_decay = 0.01}};
}

/// A strategy with the batches that it trains on: the first ones of an epoch.
class Training {
 public:
  explicit Training(const StrategyOptions& options, const std::optional<BatchSplit>& split = {})
      : data_(digits(12 * kBatch, 10)),
        strategy_(strategy_with(options, split)),
        loader_(data_.train, {.batch_size = kBatch,
                              .seed = 5,
                              .devices = strategy_->batch_devices(),
                              .split = strategy_->batch_split()}) {
    loader_.start_epoch(1);
  }

  Strategy& strategy() { return *strategy_; }
  void step(int64_t number, double rate = kRate) {
    strategy_->train_step(loader_.next(), {.step = number, .epoch = 1, .learning_rate = rate});
    strategy_->take_scores(true);
  }
  void steps(int64_t first, int64_t last) {
    for (int64_t number = first; number <= last; ++number) step(number);
  }
  /// Continues from the state of another run.
  void go_on(int64_t steps_done, const TrainingState& state) {
    for (int64_t number = 0; number < steps_done; ++number) loader_.next();
    strategy_->restore(state);
  }
  int64_t bytes_of_step(int64_t number) {
    for (int rank = 0; rank < strategy_->ranks(); ++rank) strategy_->take_costs(rank);
    step(number);
    int64_t bytes = 0;
    for (int rank = 0; rank < strategy_->ranks(); ++rank) bytes += strategy_->take_costs(rank).communication.bytes;
    return bytes;
  }
  bool is_the_same_everywhere() {
    const auto digests = strategy_->weight_digests();
    return !digests.front().tensors.empty() && !find_weight_difference(digests);
  }

 private:
  static std::unique_ptr<Strategy> strategy_with(const StrategyOptions& options,
                                                 const std::optional<BatchSplit>& split) {
    StrategyContext context = context_of(options);
    context.split = split;
    return make_strategy(options, context);
  }

  Datasets data_;
  std::unique_ptr<Strategy> strategy_;
  BatchLoader loader_;
};

/// The state of one device that trains on the samples of one replica's parts.
State trained_on_part(int replica, int64_t steps, const std::optional<BatchSplit>& split = {}) {
  StrategyOptions options = options_with({}, 1);
  options.name = "single";
  const auto strategy = make_strategy(options);
  const Datasets data = digits(12 * kBatch, 10);
  Device* const device = strategy->batch_devices().front();
  const std::vector<Device*> parts(split ? split->weights().size() : kReplicas, device);
  BatchLoader loader(data.train, {.batch_size = kBatch, .seed = 5, .devices = parts, .split = split});
  loader.start_epoch(1);
  for (int64_t step = 1; step <= steps; ++step) {
    auto batch = std::make_shared<Batch>(std::move(*loader.next()));
    auto& of_replicas = batch->micro_batches.front().parts;
    of_replicas = {of_replicas[static_cast<size_t>(replica)]};
    batch->samples = of_replicas.front().samples();
    batch->counts = {batch->samples};
    strategy->train_step(std::move(batch), {.step = step, .epoch = 1, .learning_rate = kRate});
    strategy->take_scores(true);
  }
  return strategy->state_dict();
}

/// Expects `got` to be the weighted mean of the replicas.
void expect_mean(const State& got, const std::vector<State>& replicas, const std::vector<double>& weights) {
  for (size_t t = 0; t < got.size(); ++t)
    for (size_t i = 0; i < got[t].values.size(); ++i) {
      double mean = 0;
      for (size_t r = 0; r < replicas.size(); ++r) mean += weights[r] * replicas[r][t].values[i];
      ASSERT_NEAR(got[t].values[i], mean, 1e-5 * std::abs(mean) + 1e-7) << got[t].name << " " << i;
    }
}

/// All elements of the trained tensors, in order.
std::vector<double> weights_of(const State& state) {
  std::vector<double> weights;
  for (const nn::NamedValues& tensor : state)
    if (tensor.name.find("running_") == std::string::npos)
      weights.insert(weights.end(), tensor.values.begin(), tensor.values.end());
  return weights;
}

/// Momentum and running statistics are part of the comparison.
TEST(LocalSgd, EachReplicaTrainsAsOneDeviceOnItsPartAlone) {
  constexpr int64_t kSteps = 3;
  const std::vector<State> alone = {trained_on_part(0, kSteps), trained_on_part(1, kSteps)};
  Training averaged(options_with({.period = kSteps})), apart(options_with({.period = 100}));
  averaged.steps(1, kSteps);
  apart.steps(1, kSteps);
  EXPECT_TRUE(averaged.is_the_same_everywhere());
  EXPECT_FALSE(apart.is_the_same_everywhere());
  expect_mean(averaged.strategy().state_dict(), alone, {0.5, 0.5});
  expect_mean(apart.strategy().state_dict(), alone, {0.5, 0.5});
}

/// The replicas have 24 and 8 of 32 samples. Each trains with the configured learning rate, and counts by its samples
/// in the mean.
TEST(LocalSgd, OfUnevenPartsEachCountsByItsSamples) {
  constexpr int64_t kSteps = 3;
  const BatchSplit split = BatchSplit::weighted({0.75, 0.25});
  const std::vector<State> alone = {trained_on_part(0, kSteps, split), trained_on_part(1, kSteps, split)};
  Training training(options_with({.period = kSteps}), split);
  training.steps(1, kSteps);
  expect_mean(training.strategy().state_dict(), alone, {0.75, 0.25});
}

/// With an averaging after every step, local_sgd is ddp whose devices have their own batch statistics.
TEST(LocalSgd, OfUnevenPartsAMeanAfterEveryStepIsDdp) {
  for (const std::vector<double>& shares : {std::vector{0.75, 0.25}, {0.5, 0.1, 0.4}}) {
    const BatchSplit split = BatchSplit::weighted(shares);
    StrategyOptions options = options_with({.period = 1}, static_cast<int>(shares.size()));
    Training averaged(options, split);
    options.name = "ddp";
    Training ddp(options, split);
    const std::vector<double> before = weights_of(ddp.strategy().state_dict());
    averaged.steps(1, 4);
    ddp.steps(1, 4);
    const auto got = weights_of(averaged.strategy().state_dict()), right = weights_of(ddp.strategy().state_dict());
    double apart = 0, moved = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      apart += std::pow(got[i] - right[i], 2);
      moved += std::pow(right[i] - before[i], 2);
    }
    EXPECT_LT(std::sqrt(apart / moved), 1e-4);
  }
}

/// One device has all of 32 samples. The mean is its state, running statistics included.
TEST(LocalSgd, ADeviceWithoutSamplesCountsForNothing) {
  constexpr int64_t kSteps = 3;
  const BatchSplit split(std::vector<int64_t>{0, 1});
  const std::vector<State> alone = {trained_on_part(1, kSteps, split)};
  Training training(options_with({.period = kSteps}), split);
  training.steps(1, kSteps);
  expect_mean(training.strategy().state_dict(), alone, {1});
}

TEST(LocalSgd, WeightsAreAveragedAfterTheStepsOfTheWarmUpAndEachPeriod) {
  Training training(options_with({.period = 3, .warmup_steps = 2}));
  for (const auto& [step, averages] :
       {std::pair(1, true), {2, true}, {3, false}, {4, false}, {5, true}, {6, false}, {7, false}, {8, true}}) {
    const int64_t bytes = training.bytes_of_step(step);
    EXPECT_EQ(bytes > 0, averages) << "step " << step;
    EXPECT_EQ(training.is_the_same_everywhere(), averages) << "step " << step;
  }
}

/// For each period the reference is the mean of a plain averaging that starts where the previous outer step ended.
TEST(LocalSgd, OuterStepsGoByHowFarTheMeanLies) {
  constexpr int64_t kPeriod = 2;
  constexpr double kOuterRate = 0.7, kMomentum = 0.9;
  StrategyOptions options = options_with({.period = kPeriod});
  Training plain_first(options);
  options.local_sgd.outer = {.learning_rate = kOuterRate, .momentum = kMomentum};
  Training outer(options);
  std::vector<double> anchor = weights_of(outer.strategy().state_dict()), velocity(anchor.size());
  Training* plain = &plain_first;
  std::optional<Training> next;
  for (int64_t period = 0; period < 3; ++period) {
    const int64_t first = 1 + period * kPeriod, last = first + kPeriod - 1;
    plain->steps(first, last);
    outer.steps(first, last);
    EXPECT_TRUE(outer.is_the_same_everywhere());
    const std::vector<double> mean = weights_of(plain->strategy().state_dict());
    double moved = 0;
    for (size_t i = 0; i < anchor.size(); ++i) {
      const double gradient = anchor[i] - mean[i];
      velocity[i] = kMomentum * velocity[i] + gradient;
      const double before = anchor[i];
      anchor[i] -= kOuterRate * (gradient + kMomentum * velocity[i]);
      moved = std::max(moved, std::abs(anchor[i] - before));
    }
    const std::vector<double> got = weights_of(outer.strategy().state_dict());
    for (size_t i = 0; i < anchor.size(); ++i) ASSERT_NEAR(got[i], anchor[i], 1e-4 * moved) << period << " " << i;
    anchor = got;
    TrainingState state = outer.strategy().training_state();
    state.replicas.clear();
    next.emplace(options_with({.period = kPeriod}));
    next->go_on(last, state);
    plain = &*next;
  }
}

/// The mean of one device is its own weights; outer steps are still made.
TEST(LocalSgd, OneDeviceMakesOuterSteps) {
  StrategyOptions options = options_with({.period = 2}, 1);
  Training plain(options);
  options.local_sgd.outer = {.learning_rate = 0.5, .momentum = 0};
  Training outer(options);
  const std::vector<double> anchor = weights_of(outer.strategy().state_dict());
  plain.steps(1, 2);
  outer.steps(1, 2);
  const auto mean = weights_of(plain.strategy().state_dict()), got = weights_of(outer.strategy().state_dict());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], (anchor[i] + mean[i]) / 2, 1e-6) << i;
}

TEST(LocalSgd, AnOuterStepToTheMeanIsNone) {
  StrategyOptions options = options_with({.period = 3});
  Training plain(options);
  options.local_sgd.outer = {.learning_rate = 1, .momentum = 0};
  Training outer(options);
  plain.steps(1, 5);
  outer.steps(1, 5);
  expect_same_bits(outer.strategy().state_dict(), plain.strategy().state_dict());
}

/// The warm-up is plain averagings, each after a single step.
TEST(LocalSgd, OuterStepsBeginAfterTheWarmUp) {
  StrategyOptions options = options_with({.period = 3, .warmup_steps = 2});
  Training plain(options);
  options.local_sgd.outer = {.learning_rate = 0.5, .momentum = 0.9};
  Training outer(options);
  plain.steps(1, 4);
  outer.steps(1, 4);
  expect_same_bits(outer.strategy().state_dict(), plain.strategy().state_dict());
  plain.step(5);
  outer.step(5);
  EXPECT_NE(weights_of(outer.strategy().state_dict()), weights_of(plain.strategy().state_dict()));
}

/// What Adasum makes of how far replicas have moved from `begun`, pair by pair up the tree, tensor by tensor.
State adasum_of(const State& begun, std::vector<State> replicas) {
  for (State& replica : replicas)
    for (size_t t = 0; t < begun.size(); ++t)
      for (size_t i = 0; i < begun[t].values.size(); ++i) replica[t].values[i] -= begun[t].values[i];
  for (size_t width = 1; width < replicas.size(); width *= 2)
    for (size_t first = 0; first + width < replicas.size(); first += 2 * width)
      for (size_t t = 0; t < begun.size(); ++t) {
        auto &a = replicas[first][t].values, &b = replicas[first + width][t].values;
        double aa = 0, bb = 0, ab = 0;
        for (size_t i = 0; i < a.size(); ++i) {
          aa += double{a[i]} * a[i];
          bb += double{b[i]} * b[i];
          ab += double{a[i]} * b[i];
        }
        for (size_t i = 0; i < a.size(); ++i)
          a[i] = static_cast<float>((aa > 0 ? 1 - ab / (2 * aa) : 1) * a[i] + (bb > 0 ? 1 - ab / (2 * bb) : 1) * b[i]);
      }
  for (size_t t = 0; t < begun.size(); ++t)
    for (size_t i = 0; i < begun[t].values.size(); ++i) replicas[0][t].values[i] += begun[t].values[i];
  return replicas[0];
}

/// The distance between two states' weights, relative to how far `right` lies from `begun`.
double off(const State& got, const State& right, const State& begun) {
  const auto a = weights_of(got), b = weights_of(right), c = weights_of(begun);
  double apart = 0, moved = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(a[i] - b[i], 2);
    moved += std::pow(b[i] - c[i], 2);
  }
  return std::sqrt(apart / moved);
}

/// Evaluations and checkpoints see what an averaging would give. Running statistics are averaged.
TEST(LocalSgd, AdasumAddsUpHowFarReplicasHaveMoved) {
  constexpr int64_t kSteps = 3;
  for (const std::vector<int64_t>& shares : {std::vector<int64_t>{1, 1}, {3, 1}, {1, 1, 2}, {2, 1, 1, 1, 3}}) {
    const BatchSplit split(shares);
    std::vector<State> alone;
    for (int replica = 0; replica < std::ssize(shares); ++replica)
      alone.push_back(trained_on_part(replica, kSteps, split));
    StrategyOptions options = options_with({.period = kSteps}, static_cast<int>(shares.size()));
    options.local_sgd.combination = Combination::adasum;
    Training combined(options, split);
    const State begun = combined.strategy().state_dict();
    options.local_sgd.averaging.period = 100;
    Training apart(options, split);
    combined.steps(1, kSteps);
    apart.steps(1, kSteps);
    EXPECT_TRUE(combined.is_the_same_everywhere());
    EXPECT_FALSE(apart.is_the_same_everywhere());
    const State right = adasum_of(begun, alone);
    EXPECT_LT(off(combined.strategy().state_dict(), right, begun), 1e-4);
    expect_same_bits(apart.strategy().state_dict(), combined.strategy().state_dict());
    // It isn't the mean.
    options.local_sgd.combination = Combination::mean;
    Training mean(options, split);
    mean.steps(1, kSteps);
    EXPECT_GT(off(mean.strategy().state_dict(), right, begun), 0.1);
  }
}

/// A device without samples hasn't moved, and adds nothing.
TEST(LocalSgd, AdasumOfOneThatTrainsIsThatOne) {
  constexpr int64_t kSteps = 3;
  const BatchSplit split(std::vector<int64_t>{0, 1});
  StrategyOptions options = options_with({.period = kSteps});
  options.local_sgd.combination = Combination::adasum;
  Training training(options, split);
  const State begun = training.strategy().state_dict();
  training.steps(1, kSteps);
  EXPECT_LT(off(training.strategy().state_dict(), trained_on_part(1, kSteps, split), begun), 1e-5);
}

/// A step to the combination itself is no outer step, and half a step goes half the way.
TEST(LocalSgd, OuterStepsGoByHowFarAdasumMoves) {
  StrategyOptions options = options_with({.period = 2, .warmup_steps = 1});
  options.local_sgd.combination = Combination::adasum;
  Training whole(options);
  options.local_sgd.outer = {.learning_rate = 0.5};
  Training half(options);
  whole.step(1);
  half.step(1);
  expect_same_bits(half.strategy().state_dict(), whole.strategy().state_dict());
  const auto begun = weights_of(whole.strategy().state_dict());
  whole.steps(2, 3);
  half.steps(2, 3);
  const auto all = weights_of(whole.strategy().state_dict()), got = weights_of(half.strategy().state_dict());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], (begun[i] + all[i]) / 2, 1e-6) << i;
}

/// A checkpoint, a hash or an evaluation between two averagings changes no weight.
TEST(LocalSgd, LookingAtTheWeightsChangesNothingThatIsTrained) {
  const Datasets data = digits(64, 64);
  for (const Combination combination : {Combination::mean, Combination::adasum}) {
    StrategyOptions options = options_with({.period = 4});
    options.local_sgd.combination = combination;
    Training looked_at(options), alone(options);
    for (int64_t step = 1; step <= 6; ++step) {
      looked_at.step(step);
      alone.step(step);
      const State state = looked_at.strategy().state_dict();
      expect_same_bits(looked_at.strategy().training_state().model, state);
      size_t tensors = 0;
      looked_at.strategy().for_each_state([&](const nn::NamedValues&) { ++tensors; });
      EXPECT_EQ(tensors, state.size());
      ASSERT_TRUE(looked_at.strategy().evaluate(*data.test, {.stopped = [] { return false; }}));
      expect_same_bits(looked_at.strategy().state_dict(), state);
    }
    expect_same_bits(looked_at.strategy().state_dict(), alone.strategy().state_dict());
  }
}

/// The reference is one device that has the mean of the weights.
TEST(LocalSgd, EvaluatesTheMean) {
  Training training(options_with({.period = 100}));
  training.steps(1, 5);
  StrategyOptions one = options_with({}, 1);
  one.name = "single";
  const auto single = make_strategy(one);
  single->restore({.model = training.strategy().state_dict(), .optimizer = {}, .average = {}, .loss_scale = {}});
  const Datasets data = digits(64, 640);
  const EvaluationWatch watch{.stopped = [] { return false; }};
  const auto got = training.strategy().evaluate(*data.test, watch), right = single->evaluate(*data.test, watch);
  EXPECT_DOUBLE_EQ(got->mean_loss(), right->mean_loss());
  EXPECT_EQ(got->accuracy(), right->accuracy());
}

TEST(LocalSgd, GoesOnFromWhatReplicasCarriedAlong) {
  const AveragingSteps every_fourth{.period = 4};
  for (const LocalSgd::Options& local_sgd :
       {LocalSgd::Options{.averaging = every_fourth},
        {.averaging = every_fourth, .outer = {.learning_rate = 0.7, .momentum = 0.9}},
        {.averaging = every_fourth, .outer = {.learning_rate = 0.7}},
        {.averaging = every_fourth, .averages_state = false},
        {.averaging = every_fourth, .outer = {.learning_rate = 0.7}, .averages_state = false},
        {.averaging = every_fourth, .combination = Combination::adasum},
        {.averaging = every_fourth,
        .combination = Combination::adasum,
        .outer = {.learning_rate = 0.7, .momentum = 0.9},
        .averages_state = false}})
    for (const int64_t stop : {3, 4, 6}) {
      SCOPED_TRACE(::testing::Message() << "outer rate " << local_sgd.outer.learning_rate << ", averages state "
                                        << local_sgd.averages_state << ", Adasum "
                                        << (local_sgd.combination == Combination::adasum) << ", stopped after "
                                        << stop);
      StrategyOptions options = options_with({}, 3);
      options.local_sgd = local_sgd;
      Training whole(options), begun(options), resumed(options);
      whole.steps(1, 9);
      begun.steps(1, stop);
      const TrainingState state = begun.strategy().training_state();
      expect_same_bits(state.model, begun.strategy().state_dict());
      // Only right after an averaging may all replicas hold the same state.
      EXPECT_EQ(state.replicas.empty(), local_sgd.outer.momentum == 0 && local_sgd.averages_state && stop == 4);
      resumed.go_on(stop, state);
      resumed.steps(stop + 1, 9);
      expect_same_bits(resumed.strategy().state_dict(), whole.strategy().state_dict());
    }
}

/// Each replica then keeps its own optimizer state, and a checkpoint's optimizer state is the mean.
TEST(LocalSgd, OptimizersMayKeepWhatIsTheirOwn) {
  StrategyOptions options = options_with({.period = 3});
  Training averaged(options);
  options.local_sgd.averages_state = false;
  Training own(options);
  averaged.steps(1, 3);
  own.steps(1, 3);
  expect_same_bits(own.strategy().state_dict(), averaged.strategy().state_dict());
  const TrainingState kept = own.strategy().training_state(), mean = averaged.strategy().training_state();
  expect_same_bits(kept.optimizer, mean.optimizer);
  EXPECT_TRUE(mean.replicas.empty());
  const auto has = [&](const std::string& name) {
    return std::ranges::find(kept.replicas, name, &nn::NamedValues::name) != kept.replicas.end();
  };
  EXPECT_TRUE(has("momentum_buffer.1.conv1.weight"));
  EXPECT_FALSE(has("weights.1.conv1.weight")) << "which are the same";
  averaged.steps(4, 6);
  own.steps(4, 6);
  EXPECT_TRUE(own.is_the_same_everywhere());
  EXPECT_NE(weights_of(own.strategy().state_dict()), weights_of(averaged.strategy().state_dict()));
  // A run that averages optimizer states continues from the mean.
  Training other(options_with({.period = 3}));
  other.go_on(3, kept);
  other.steps(4, 6);
  expect_same_bits(other.strategy().state_dict(), averaged.strategy().state_dict());
}

constexpr CompressionOptions kCompressions[] = {{.method = CompressionOptions::Method::bf16},
                                                {.method = CompressionOptions::Method::fp16},
                                                {.method = CompressionOptions::Method::powersgd, .rank = 1},
                                                {.method = CompressionOptions::Method::two_bit}};

/// The sum over ranks of what hasn't been sent yet; empty where nothing is kept.
std::vector<double> unsent_of(const TrainingState& state) {
  std::vector<double> sum;
  for (int rank = 0; rank < kReplicas; ++rank) {
    size_t w = 0;
    for (const nn::NamedValues& tensor : state.model) {
      const std::string name = "displacement." + std::to_string(rank) + "." + tensor.name;
      const auto kept = std::ranges::find(state.compression, name, &nn::NamedValues::name);
      if (kept == state.compression.end()) continue;
      sum.resize(std::max(sum.size(), w + kept->values.size()));
      for (const float value : kept->values) sum[w++] += value;
    }
  }
  return sum;
}

/// The norm of a + factor * b - c; an empty `b` is zero.
double norm_of(const std::vector<double>& a, double factor, const std::vector<double>& b,
               const std::vector<double>& c) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(a[i] + (b.empty() ? 0 : factor * b[i]) - c[i], 2);
  return std::sqrt(squares);
}

/// What hasn't been sent is kept as a gradient, which points backward: the weights minus the kept part are the mean.
/// Later averagings send the kept part, here in steps that don't move the weights.
TEST(LocalSgd, OfCompressedWeightsNothingIsLost) {
  StrategyOptions options = options_with({.period = 3});
  Training whole(options);
  const std::vector<double> before = weights_of(whole.strategy().state_dict());
  whole.steps(1, 3);
  const std::vector<double> mean = weights_of(whole.strategy().state_dict());
  const double moved = norm_of(mean, 0, {}, before);
  for (const CompressionOptions& compress : kCompressions) {
    SCOPED_TRACE(compression_name(compress.method));
    options.local_sgd.compress = compress;
    Training training(options);
    double left = moved;
    for (int64_t step = 1; step <= 12; ++step) {
      training.step(step, step <= 3 ? kRate : 0);
      if (step % 3 != 0) continue;
      EXPECT_TRUE(training.is_the_same_everywhere());
      const TrainingState state = training.strategy().training_state();
      const std::vector<double> got = weights_of(state.model), unsent = unsent_of(state);
      EXPECT_LT(norm_of(got, -1, unsent, mean), (unsent.empty() ? 0.01 : 1e-4) * moved) << step;
      const double apart = norm_of(got, 0, {}, mean);
      EXPECT_GT(apart, 0) << "it is lossy";
      if (!unsent.empty()) {
        EXPECT_LT(apart, left) << step;
      }
      left = apart;
    }
  }
}

/// Factors of this rank leave nothing out, and no weight is large enough for factors: everything is sent whole.
TEST(LocalSgd, CompressedOuterStepsAreThoseOfTheMean) {
  StrategyOptions options = options_with({.period = 2, .warmup_steps = 2});
  options.local_sgd.outer = {.learning_rate = 0.7, .momentum = 0.9};
  Training plain(options);
  options.local_sgd.compress = {.method = CompressionOptions::Method::powersgd, .rank = 1000};
  Training compressed(options);
  for (const int64_t last : {2, 4, 6, 8}) {
    const std::vector<double> before = weights_of(plain.strategy().state_dict());
    plain.steps(last - 1, last);
    compressed.steps(last - 1, last);
    const auto right = weights_of(plain.strategy().state_dict()), got = weights_of(compressed.strategy().state_dict());
    EXPECT_LT(norm_of(got, 0, {}, right), 1e-4 * norm_of(right, 0, {}, before)) << last;
  }
}

/// Devices that continue without compression, or with a method that leaves nothing out, first add the unsent part to
/// the weights.
TEST(LocalSgd, WhatWasNotSentIsAPartOfTheWeightsWhereNobodyWillSendIt) {
  StrategyOptions options = options_with({.period = 2});
  for (const CompressionOptions& compress : {kCompressions[2], kCompressions[3]}) {
    SCOPED_TRACE(compression_name(compress.method));
    options.local_sgd.compress = compress;
    Training begun(options);
    begun.steps(1, 4);
    const TrainingState state = begun.strategy().training_state();
    const std::vector<double> written = weights_of(state.model), unsent = unsent_of(state);
    for (const int devices : {1, 2, 3})
      for (const CompressionOptions& next : {CompressionOptions{}, kCompressions[0], compress}) {
        SCOPED_TRACE(::testing::Message() << "to " << devices << " with " << compression_name(next.method));
        StrategyOptions other = options_with({.period = 2}, devices);
        other.local_sgd.compress = next;
        Training resumed(other);
        resumed.go_on(4, state);
        const bool sends = devices > 1 && next.method == compress.method;
        EXPECT_LT(norm_of(written, sends ? 0 : -1, unsent, weights_of(resumed.strategy().state_dict())),
                  1e-5 * norm_of(unsent, 0, {}, std::vector<double>(unsent.size())));
      }
  }
}

/// The unsent part of ddp consists of gradients, not of movements of weights.
TEST(LocalSgd, GradientsThatWereNotSentAreNotTakenForWeights) {
  StrategyOptions ddp = options_with({});
  ddp.name = "ddp";
  ddp.compress = kCompressions[3];
  Training begun(ddp);
  begun.steps(1, 4);
  TrainingState state = begun.strategy().training_state();
  StrategyOptions local = options_with({.period = 2});
  local.local_sgd.compress = kCompressions[3];
  Training with(local), without(local);
  with.go_on(4, state);
  ASSERT_GT(std::erase_if(state.compression, [](const auto& tensor) { return tensor.name.starts_with("residual."); }),
            0u);
  without.go_on(4, state);
  with.steps(5, 8);
  without.steps(5, 8);
  expect_same_bits(with.strategy().state_dict(), without.strategy().state_dict());
}

TEST(LocalSgd, CompressedWeightsTakeFewerBytes) {
  StrategyOptions options = options_with({.period = 2});
  options.sgd.momentum = 0;
  const auto bytes_with = [&](const CompressionOptions& compress) {
    options.local_sgd.compress = compress;
    Training training(options);
    EXPECT_EQ(training.bytes_of_step(1), 0);
    return static_cast<double>(training.bytes_of_step(2));
  };
  const double whole = bytes_with({});
  EXPECT_LT(bytes_with(kCompressions[0]), 0.52 * whole);
  EXPECT_LT(bytes_with(kCompressions[1]), 0.52 * whole);
  EXPECT_LT(bytes_with(kCompressions[2]), 0.5 * whole);
  EXPECT_LT(bytes_with(kCompressions[3]), 0.12 * whole);
}

/// Evaluating and resuming change no bit, as without compression.
TEST(LocalSgd, CompressedWeightsAreLookedAtAndGoOnFromACheckpoint) {
  const Datasets data = digits(64, 64);
  for (const CompressionOptions& compress : kCompressions)
    for (const OuterStep& outer : {OuterStep{}, {.learning_rate = 0.7, .momentum = 0.9}}) {
      SCOPED_TRACE(::testing::Message() << compression_name(compress.method) << ", " << outer.learning_rate);
      StrategyOptions options = options_with({.period = 3, .warmup_steps = 1}, 3);
      options.local_sgd.compress = compress;
      options.local_sgd.outer = outer;
      Training whole(options), looked_at(options);
      whole.steps(1, 9);
      for (int64_t step = 1; step <= 9; ++step) {
        looked_at.step(step);
        ASSERT_TRUE(looked_at.strategy().evaluate(*data.test, {.stopped = [] { return false; }}));
        if (step != 4 && step != 6) continue;  // after an averaging, and between two averagings
        const TrainingState state = looked_at.strategy().training_state();
        Training resumed(options);
        resumed.go_on(step, state);
        resumed.steps(step + 1, 9);
        expect_same_bits(resumed.strategy().state_dict(), whole.strategy().state_dict());
      }
      expect_same_bits(looked_at.strategy().state_dict(), whole.strategy().state_dict());
    }
}

/// One device has nothing to send.
TEST(LocalSgd, OneDeviceCompressesNothing) {
  StrategyOptions options = options_with({.period = 2}, 1);
  Training plain(options);
  options.local_sgd.compress = kCompressions[3];
  Training compressed(options);
  plain.steps(1, 4);
  compressed.steps(1, 4);
  expect_same_bits(compressed.strategy().state_dict(), plain.strategy().state_dict());
}

TEST(LocalSgd, AStateThatLacksATensorIsRefused) {
  StrategyOptions options = options_with({.period = 4});
  options.local_sgd.outer = {.learning_rate = 0.7, .momentum = 0.9};
  Training begun(options);
  begun.steps(1, 3);
  const TrainingState whole = begun.strategy().training_state();
  for (const char* name : {"weights.1.fc1.weight", "momentum_buffer.0.conv1.weight", "running.1", "anchor.fc1.bias"}) {
    TrainingState damaged = whole;
    ASSERT_EQ(std::erase_if(damaged.replicas, [&](const auto& tensor) { return tensor.name == name; }), 1u) << name;
    testing::expect_error(ExitCode::bad_data, {"replicas.safetensors", name, "got none"}, [&] {
      Training resumed(options);
      resumed.strategy().restore(damaged);
    });
  }
}

TEST(LocalSgd, OtherNumbersOfDevicesAndOtherStrategiesGoOnFromTheMean) {
  Training begun(options_with({.period = 4}));
  begun.steps(1, 3);
  const TrainingState state = begun.strategy().training_state();
  StrategyOptions ddp = options_with({});
  ddp.name = "ddp";
  for (const StrategyOptions& options : {options_with({.period = 4}, 3), options_with({.period = 4}, 1), ddp}) {
    SCOPED_TRACE(options.name);
    Training other(options);
    other.go_on(3, state);
    expect_same_bits(other.strategy().state_dict(), state.model);
    expect_same_bits(other.strategy().training_state().optimizer, state.optimizer);
    other.steps(4, 5);
  }
}

}  // namespace local_sgd_test
}  // namespace dptrain::parallel
