// Every net under every strategy with every option, on every allowed number of devices, against one device with the
// whole batch. Weights agree within a bound, and bit for bit where the same sums are made in the same order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "nn/name_cover.h"
#include "parallel/parity_nets.h"
#include "parallel/parity_ways.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace parity_matrix_test {

/// Two batches of 18 samples, uneven on 4 devices, and one of 7, where some devices have no sample of a micro-batch.
/// The second step doesn't use the half-used net's branch.
constexpr int64_t kBatch = 18, kSamples = 2 * kBatch + 7, kSteps = 3;

const std::vector<double> kWeights = {0.5, 0.1, 0.25, 0.15};

/// A cut with the same number of units in each stage, as far as possible.
std::vector<std::string> even_cut(const std::vector<std::string>& units, size_t stages, ParityWay::Cut written_as) {
  std::vector<std::string> entries;
  for (size_t s = 0; s < stages; ++s) {
    const size_t begin = s * units.size() / stages, end = (s + 1) * units.size() / stages;
    entries.push_back(written_as == ParityWay::Cut::names ? units[begin] : std::to_string(end - begin));
  }
  return entries;
}

int stages_of(const StrategyOptions& of_pipeline, int devices) {
  return devices / of_pipeline.pipeline.replicas * of_pipeline.pipeline.stages_per_device;
}

/// A net's training runs; each is made only once.
class NetTrainings {
 public:
  explicit NetTrainings(const std::string& name) : net_(parity_net(name, kSamples)) {}

  const ParityNet& net() const { return net_; }
  const std::vector<std::string>& units() {
    if (units_.empty()) {
      const auto device = open_device({DeviceKind::cpu, 0});
      units_ = unit_names(*net_.model.build({.device = *device}, net_.input));
    }
    return units_;
  }
  const State& beginning() {
    if (beginning_.empty()) beginning_ = strategy(parity_way_named("single"), 1)->state_dict();
    return beginning_;
  }
  const Trained& trained(const ParityWay& way, int devices) {
    const auto known = done_.find({way.name, devices});
    if (known != done_.end()) return known->second;
    const auto several = strategy(way, devices);
    Trained result;
    result.losses = train_steps_as_epochs(*several, net_.data,
                                          {.last = kSteps,
                                           .batch = kBatch,
                                           .learning_rate = net_.learning_rate,
                                           .micro_batches = way.options.micro_batches});
    const auto difference = find_weight_difference(several->weight_digests());
    EXPECT_FALSE(difference) << "rank " << difference->rank << " has another " << difference->tensor;
    result.state = several->state_dict();
    return done_[{way.name, devices}] = std::move(result);
  }
  /// One device with the same optimizer and the same samples per micro-batch.
  const Trained& single(const StrategyOptions& of, int64_t micro_batches) {
    ParityWay one = parity_way_named("single");
    one.name += " in " + std::to_string(micro_batches) + optimizer_of(of).name;
    one.options.lars = of.lars;
    one.options.lamb = of.lamb;
    one.options.clip_norm = of.clip_norm;
    one.options.micro_batches = micro_batches;
    return trained(one, 1);
  }

 private:
  std::unique_ptr<Strategy> strategy(const ParityWay& way, int devices) {
    StrategyOptions options = way.options;
    options.net = net_.model;
    options.devices = devices;
    // Its branch may be unused, and ddp requires this option for that.
    options.find_unused |= net_.name == "half_used";
    if (options.output_rank < 0) options.output_rank += devices;
    if (is_pipeline(options) && way.cut != ParityWay::Cut::measured)
      options.pipeline.cut.entries = even_cut(units(), static_cast<size_t>(stages_of(options, devices)), way.cut);
    StrategyContext context = context_of(options);
    context.replica.input = net_.input;
    context.team.timeout_s = 60;  // an endless wait fails
    context.shards = way.shards;
    context.replica.steps_in_flight = way.steps_in_flight;
    if (way.split == ParityWay::Split::weights)
      context.split = BatchSplit::weighted({kWeights.begin(), kWeights.begin() + devices});
    auto made = make_strategy(options, context);
    if (way.split == ParityWay::Split::measured)
      made->set_split(BatchSplit::weighted(made->measure_speeds(*net_.data.train, kBatch / devices)));
    return made;
  }

  ParityNet net_;
  std::vector<std::string> units_;
  State beginning_;
  std::map<std::pair<std::string, int>, Trained> done_;
};

/// Tests of the same net share the runs if one process runs several of them.
NetTrainings& trainings_of(const std::string& net) {
  static std::map<std::string, NetTrainings> all;
  return all.try_emplace(net, net).first->second;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(squares);
}

bool is_statistic(const nn::NamedValues& tensor) { return tensor.name.find("running_") != std::string::npos; }

/// The distance of the weights from their reference, relative to the reference's movement: for all weights together,
/// and for the worst tensor, including running statistics where these are compared. A tensor that hardly moves, such as
/// a bias before a batch norm, holds only rounding errors of larger tensors. So its movement counts as at least a
/// thousandth of all movement.
struct Miss {
  double together = 0;
  double largest = 0;
};

Miss miss_of(const State& got, const State& right, const State& beginning, bool with_statistics) {
  double all = 0, apart = 0;
  for (size_t t = 0; t < right.size(); ++t) {
    if (is_statistic(right[t])) continue;
    all = std::hypot(all, distance(right[t].values, beginning[t].values));
    apart = std::hypot(apart, distance(got[t].values, right[t].values));
  }
  Miss miss{.together = apart / all};
  for (size_t t = 0; t < right.size(); ++t) {
    if (is_statistic(right[t]) && !with_statistics) continue;
    const double moved = std::max(distance(right[t].values, beginning[t].values), all / 1000);
    miss.largest = std::max(miss.largest, distance(got[t].values, right[t].values) / moved);
  }
  return miss;
}

/// Expects frozen parameters to be unchanged bit for bit, and all others to have moved. Running statistics follow the
/// data in all layers.
void expect_frozen(const ParityNet& net, const State& state, const State& beginning) {
  for (size_t t = 0; t < state.size() && !net.frozen.empty(); ++t) {
    if (is_statistic(state[t])) continue;
    const auto covers = [&](const std::string& entry) {
      return nn::covers(entry, state[t].name) || nn::covers(entry, state[t].tied_to);
    };
    const bool moved = distance(state[t].values, beginning[t].values) > 0;
    const bool is_frozen = std::ranges::any_of(net.frozen, covers);
    // A bias may have only rounding errors to move by.
    if (is_frozen || state[t].shape.rank() > 1) {
      EXPECT_NE(moved, is_frozen) << state[t].name;
    }
  }
}

/// Parameters: net and way.
class ParityMatrix : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(ParityMatrix, LearnsWhatOneDeviceLearns) {
  NetTrainings& trainings = trainings_of(std::get<0>(GetParam()));
  const ParityNet& net = trainings.net();
  const ParityWay way = parity_way_named(std::get<1>(GetParam()));
  const bool pipeline = is_pipeline(way.options);
  int compared = 0;
  for (const int devices : way.devices) {
    SCOPED_TRACE(net.name + ", " + way.name + ", on " + std::to_string(devices) + " devices");
    if (pipeline && stages_of(way.options, devices) > std::ssize(trainings.units())) continue;
    ++compared;
    const Trained& got = trainings.trained(way, devices);
    const int replicas = pipeline ? way.options.pipeline.replicas : devices;
    const int parts = !way.own_statistics || !net.batch_norms ? 1 : way.shards > 0 ? way.shards : replicas;
    const Trained& right = trainings.single(way.options, way.options.micro_batches * parts);
    ASSERT_EQ(got.losses.size(), right.losses.size());
    ASSERT_EQ(got.state.size(), right.state.size());
    EXPECT_NEAR(got.losses[0], right.losses[0], 1e-5 * right.losses[0]) << "before anything was learned";
    expect_frozen(net, got.state, trainings.beginning());
    const Miss miss = miss_of(got.state, right.state, trainings.beginning(), parts == 1);
    if (way.lossy > 0 && devices > 1)
      EXPECT_LE(miss.together, way.lossy);
    else
      EXPECT_LE(miss.largest, net.bound);
    // With one device, all ways add in the same order.
    if (devices == 1 && way.shards == 0) expect_same_bits(got.state, right.state);
    if (way.twin.way.empty() || (pipeline && net.tied)) continue;
    const int twins = way.twin.devices > 0 ? way.twin.devices : devices;
    const Trained& twin = trainings.trained(parity_way_named(way.twin.way), twins);
    expect_same_bits(got.state, twin.state);
    // Reported losses are sums in double precision, and not all strategies add them up device by device.
    for (size_t step = 0; step < twin.losses.size(); ++step) EXPECT_DOUBLE_EQ(got.losses[step], twin.losses[step]);
  }
  EXPECT_GT(compared, 0) << "the net has fewer stages than this way has for any number of devices";
}

/// The bounds of nets with batch norms must be narrow enough to tell a device's own batch statistics from those of the
/// whole batch.
TEST(ParityBounds, AreNarrowerThanWhatOwnStatisticsChange) {
  const ParityWay own = parity_way_named("ddp_local_statistics");
  for (const char* name : {"resnet", "pyramidnet"}) {
    NetTrainings& trainings = trainings_of(name);
    const State& right = trainings.single({}, 1).state;
    for (const int devices : {2, 3, 4}) {
      SCOPED_TRACE(std::string(name) + " on " + std::to_string(devices) + " devices");
      const Miss miss = miss_of(trainings.trained(own, devices).state, right, trainings.beginning(), true);
      EXPECT_GT(miss.largest, 5 * trainings.net().bound);
    }
  }
}

/// All pairs, except interleaved pipelines of nets with too few units for two devices.
std::vector<std::tuple<const char*, std::string>> nets_and_ways() {
  std::vector<std::tuple<const char*, std::string>> all;
  for (const char* net : kParityNets)
    for (const ParityWay& way : parity_ways()) {
      const bool is_short = net == std::string("lenet") || net == std::string("half_used");
      if (!is_short || way.options.pipeline.stages_per_device == 1) all.emplace_back(net, way.name);
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Nets, ParityMatrix, ::testing::ValuesIn(nets_and_ways()), [](const auto& test) {
  return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
});

}  // namespace parity_matrix_test
}  // namespace dptrain::parallel
