// Bytes that all devices of data_parallel and hybrid together send per step, exactly: the formulas of
// docs/strategy-details.md, with sizes computed here.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "ops/square_digits.h"
#include "parallel/parity_nets.h"
#include "parallel/parity_ways.h"

namespace dptrain::parallel {
namespace sent_bytes_test {

/// A batch of 26 is uneven on 3 devices and on 4.
constexpr int64_t kBatch = 26, kSteps = 2;
constexpr int64_t kFloat = sizeof(float);

/// Bytes sent in some steps, and the samples that each rank computed.
struct Sent {
  int64_t bytes = 0;
  std::vector<int64_t> samples;

  int64_t samples_beside(int rank) const {
    return std::accumulate(samples.begin(), samples.end(), int64_t{0}) - samples[static_cast<size_t>(rank)];
  }
};

Sent sent_by(StrategyOptions options, const ParityNet& net, const std::optional<BatchSplit>& split = {}) {
  options.net = net.model;
  StrategyContext context = context_of(options);
  context.replica.input = net.input;
  context.split = split;
  const auto strategy = make_strategy(options, context);
  for (int rank = 0; rank < options.devices; ++rank) strategy->take_costs(rank);
  train(*strategy, net.data, kSteps, kBatch, 0.01, options.micro_batches);
  Sent sent;
  for (int rank = 0; rank < options.devices; ++rank) {
    const RankCosts costs = strategy->take_costs(rank);
    sent.bytes += costs.communication.bytes;
    sent.samples.push_back(costs.samples);
  }
  return sent;
}

/// P in the formulas: each parameter begins at a multiple of 16 elements.
int64_t parameter_bytes(const ParityNet& net) {
  const auto device = open_device({DeviceKind::cpu, 0});
  const auto model = net.model.build({.device = *device}, net.input);
  model->place(*device, {});
  int64_t bytes = 0;
  for (const Parameter* parameter : model->parameters())
    bytes += kFloat * ((parameter->gradient().storage_elements() + 15) / 16 * 16);
  return bytes;
}

int64_t parameters(const ParityNet& net) {
  const auto device = open_device({DeviceKind::cpu, 0});
  const auto model = net.model.build({.device = *device}, net.input);
  model->place(*device, {});
  return std::ssize(model->parameters());
}

/// V in the formulas: two running statistics for each batch norm.
int64_t statistics_bytes(const ParityNet& net) {
  int64_t bytes = 0;
  if (net.name == "resnet")
    for (const int64_t channels : kResidualNetChannels) bytes += 2 * kFloat * ((channels + 15) / 16 * 16);
  return bytes;
}

/// Parameters: net and devices.
class DataParallelBytes : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  ParityNet net() const { return parity_net(std::get<0>(GetParam()), kSteps * kBatch); }
  int devices() const { return std::get<1>(GetParam()); }
  StrategyOptions options(const char* name) const { return {.name = name, .devices = devices()}; }
  /// Bytes that hand out weights and collect gradients.
  int64_t of_weights() const {
    return kSteps * (devices() - 1) * (2 * parameter_bytes(net()) + statistics_bytes(net()));
  }
};

/// The second of two steps ends with an averaging: of weights, of running statistics, and of momentum unless each
/// device keeps its own.
TEST(LocalSgdBytes, AreThoseOfWhatReplicasHoldAtEachAveraging) {
  for (const char* name : {"lenet", "resnet"})
    for (const int devices : {1, 2, 3})
      for (const auto& [momentum, averages] : {std::pair(0.0, true), {0.9, true}, {0.9, false}}) {
        SCOPED_TRACE(::testing::Message()
                     << name << " on " << devices << ", momentum " << momentum << ", " << averages);
        const ParityNet net = parity_net(name, kSteps * kBatch);
        const Sent sent = sent_by({.name = "local_sgd",
                                   .devices = devices,
                                   .local_sgd = {.averaging = {.period = 2}, .averages_state = averages},
                                   .sgd = {.momentum = momentum}},
                                  net);
        const int64_t weights = (momentum > 0 && averages ? 2 : 1) * parameter_bytes(net);
        EXPECT_EQ(sent.bytes, 2 * (devices - 1) * (weights + statistics_bytes(net)));
      }
}

/// As many, up to the padding of parts, and four sums of squares of each tensor for every pair of vectors.
TEST(LocalSgdBytes, OfAdasumAreThoseOfAMeanAndOfNorms) {
  const ParityNet net = parity_net("resnet", kSteps * kBatch);
  for (const int devices : {1, 2, 3, 5}) {
    SCOPED_TRACE(devices);
    StrategyOptions options{.name = "local_sgd", .devices = devices, .local_sgd = {.averaging = {.period = kSteps}}};
    const int64_t mean = sent_by(options, net).bytes;
    options.local_sgd.combination = Combination::adasum;
    constexpr int64_t kNorms = 4 * 8 * ops::kSquareSumNumbers;
    const int64_t pairs = devices - 1, norms = 2 * (devices - 1) * pairs * parameters(net) * kNorms,
                  got = sent_by(options, net).bytes - norms;
    EXPECT_GE(got, mean);
    EXPECT_LE(got, mean + devices * (devices - 1) * kFloat * 16);
  }
}

/// They are the bytes of a step of ddp, and of the running statistics.
TEST(LocalSgdBytes, OfCompressedAveragingsAreThoseOfCompressedGradients) {
  using Method = CompressionOptions::Method;
  for (const char* name : {"lenet", "resnet"})
    for (const Method method : {Method::bf16, Method::fp16, Method::powersgd, Method::two_bit}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << compression_name(method));
      const ParityNet net = parity_net(name, kSteps * kBatch);
      const CompressionOptions compress{.method = method};
      const Sent ddp = sent_by({.name = "ddp", .devices = 3, .compress = compress}, net);
      const Sent local = sent_by(
          {.name = "local_sgd", .devices = 3, .local_sgd = {.averaging = {.period = kSteps}, .compress = compress}},
          net);
      EXPECT_EQ(local.bytes, ddp.bytes / kSteps + 2 * (3 - 1) * statistics_bytes(net));
    }
}

class ImageBytes : public DataParallelBytes {
 protected:
  static constexpr int64_t kImage = kFloat * 28 * 28, kLogits = kFloat * 10;
};

TEST_P(ImageBytes, OfAGatheredCriterionAreWeightsImagesAndLogitsBothWays) {
  for (int output = 0; output < devices(); ++output)
    for (const int64_t micro_batches : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << "outputs on " << output << ", " << micro_batches << " micro-batches");
      StrategyOptions gathered = options("data_parallel");
      gathered.output_rank = output;
      gathered.micro_batches = micro_batches;
      const Sent sent = sent_by(gathered, net());
      EXPECT_EQ(sent.bytes, of_weights() + kImage * sent.samples_beside(0) + 2 * kLogits * sent.samples_beside(output));
    }
}

TEST_P(ImageBytes, OfAParallelCriterionHaveNoLogits) {
  const Sent sent = sent_by(options("parallel_criterion"), net());
  EXPECT_EQ(sent.bytes, of_weights() + kImage * sent.samples_beside(0));
}

TEST_P(ImageBytes, OfUnevenPartsGoByEachDevicesOwn) {
  std::vector<double> weights = {0.5, 0.1, 0.25, 0.15};
  weights.resize(static_cast<size_t>(devices()));
  StrategyOptions gathered = options("data_parallel");
  gathered.output_rank = 1;
  const Sent sent = sent_by(gathered, net(), BatchSplit::weighted(weights));
  EXPECT_NE(sent.samples[0], sent.samples[1]);
  EXPECT_EQ(sent.bytes, of_weights() + kImage * sent.samples_beside(0) + 2 * kLogits * sent.samples_beside(1));
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Nets, ImageBytes,
                         ::testing::Combine(::testing::Values("lenet", "resnet"), ::testing::Values(2, 3, 4)),
                         case_name);

/// Tokens come from the host; logits are of masked words and of the next sentence.
class TextBytes : public DataParallelBytes {
 protected:
  /// Bytes of the steps' logits, of all ranks but one.
  int64_t logits_beside(int rank) const {
    const auto replicas = make_strategy({.devices = devices()});
    const Datasets data = net().data;
    BatchLoader loader(data.train, {.batch_size = kBatch, .seed = 5, .devices = replicas->batch_devices()});
    loader.start_epoch(1);
    int64_t logits = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto batch = loader.next();
      const auto& parts = batch->micro_batches[0].parts;
      for (int of = 0; of < devices(); ++of)
        if (of != rank) {
          const auto& targets = parts[static_cast<size_t>(of)].targets;
          logits +=
              static_cast<int64_t>(targets[0].size()) * kText.vocabulary + static_cast<int64_t>(targets[1].size()) * 2;
        }
    }
    return logits;
  }
};

TEST_P(TextBytes, OfAGatheredCriterionAreWeightsAndLogitsBothWays) {
  StrategyOptions gathered = options("data_parallel");
  for (int output = 0; output < devices(); ++output) {
    gathered.output_rank = output;
    EXPECT_EQ(sent_by(gathered, net()).bytes, of_weights() + 2 * kFloat * logits_beside(output)) << output;
  }
}

TEST_P(TextBytes, OfAParallelCriterionAreWeightsAlone) {
  EXPECT_EQ(sent_by(options("parallel_criterion"), net()).bytes, of_weights());
}

INSTANTIATE_TEST_SUITE_P(Nets, TextBytes, ::testing::Combine(::testing::Values("bert"), ::testing::Values(2, 3, 4)),
                         case_name);

/// Parameter: the number of replicas.
class HybridBytes : public ::testing::TestWithParam<int> {
 protected:
  int replicas() const { return GetParam(); }
  StrategyOptions hybrid(const std::vector<std::string>& stages) const {
    return {.name = "hybrid",
            .devices = replicas() * static_cast<int>(stages.size()),
            .micro_batches = 4,
            .pipeline = {.cut = {.entries = stages}, .micro_batches = 4, .replicas = replicas()}};
  }
};

TEST_P(HybridBytes, AreActivationsAtEachCutAndGradientsOfEachStage) {
  const ParityNet net = parity_net("lenet", kSteps * kBatch);
  const int64_t gradients = 2 * (replicas() - 1) * parameter_bytes(net);
  // Activations are [n, 20, 12, 12], and [n, 50, 4, 4] behind the second convolution.
  const int64_t first_cut = kFloat * kBatch * 20 * 12 * 12, second_cut = kFloat * kBatch * 50 * 4 * 4;
  EXPECT_EQ(sent_by(hybrid({"1", "2"}), net).bytes, kSteps * (gradients + 2 * first_cut));
  EXPECT_EQ(sent_by(hybrid({"1", "1", "1"}), net).bytes, kSteps * (gradients + 2 * first_cut + 2 * second_cut));
}

TEST_P(HybridBytes, OfATiedWeightCountItTwice) {
  const ParityNet net = parity_net("bert", kSteps * kBatch);
  const int64_t tied = kFloat * kText.vocabulary * 16, cut = kFloat * kBatch * kText.sequence * 16;
  EXPECT_EQ(sent_by(hybrid({"2", "2"}), net).bytes,
            kSteps * (2 * cut + 2 * replicas() * tied + 2 * (replicas() - 1) * (parameter_bytes(net) + tied)));
}

INSTANTIATE_TEST_SUITE_P(Replicas, HybridBytes, ::testing::Values(2, 3),
                         [](const auto& test) { return "of_" + std::to_string(test.param); });

}  // namespace sent_bytes_test
}  // namespace dptrain::parallel
