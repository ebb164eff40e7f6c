// Memory under DataParallel: where outputs are large, the device that gathers them fills up first.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/next_sentence_pairs.h"
#include "data/synthetic.h"
#include "data/synthetic_text.h"
#include "models/bert.h"
#include "models/pyramidnet.h"
#include "parallel/digits.h"

namespace dptrain::parallel {
namespace memory_imbalance_test {

constexpr int kDevices = 4;

struct Peaks {
  std::vector<int64_t> bytes;

  double imbalance() const {
    const auto [least, most] = std::ranges::minmax(bytes);
    return static_cast<double>(most) / static_cast<double>(least);
  }
  int64_t largest() const { return std::ranges::max_element(bytes) - bytes.begin(); }
};

Peaks peaks_of(Strategy& strategy, const Datasets& data, int64_t batch) {
  train(strategy, data, 2, batch, 0.01);
  Peaks peaks;
  for (int rank = 0; rank < kDevices; ++rank) peaks.bytes.push_back(strategy.take_costs(rank).peak_bytes);
  return peaks;
}

/// Peaks for a small BERT with a vocabulary of 8,000. Its logits are most of what a step holds.
Peaks bert_peaks(const StrategyOptions& options) {
  const models::BertOptions sizes{
      .vocabulary = 8000, .hidden = 16, .layers = 1, .heads = 2, .sequence = 64, .dropout = 0.1f};
  const models::TextSizes text = {.vocabulary = sizes.vocabulary, .sequence = sizes.sequence};
  StrategyContext context = context_of(options);
  context.replica.model = {.name = "bert", .build = [sizes](const nn::LayerOptions&, const models::ModelInput& input) {
                             return models::build_bert(sizes, input);
                           }};
  context.replica.input = {.text = text};
  const auto lines = std::make_shared<const TokenizedLines>(
      make_synthetic_text({.seed = 1, .lines = 600, .vocabulary = sizes.vocabulary, .sequence = sizes.sequence}));
  Datasets data;
  data.train = std::make_shared<SentencePairs>(
      lines, SentencePairsOptions{.sequence = sizes.sequence, .seed = 1, .test_fraction = 0.1, .limit = 128});
  const auto strategy = make_strategy(options, context);
  return peaks_of(*strategy, data, 64);
}

TEST(MemoryImbalance, GatheredLogitsOfBertPileUpOnTheOutputDevice) {
  const Peaks first = bert_peaks({.name = "data_parallel", .devices = kDevices});
  EXPECT_GT(first.imbalance(), 2);
  EXPECT_EQ(first.largest(), 0);
  const Peaks second = bert_peaks({.name = "data_parallel", .devices = kDevices, .output_rank = 1});
  EXPECT_GT(second.imbalance(), 2) << "the peak has only moved";
  EXPECT_EQ(second.largest(), 1);
}

TEST(MemoryImbalance, AParallelCriterionSpreadsThem) {
  const Peaks peaks = bert_peaks({.name = "parallel_criterion", .devices = kDevices});
  EXPECT_LE(peaks.imbalance(), 1.1);
  EXPECT_LT(
      std::ranges::max(peaks.bytes),
      0.6 * static_cast<double>(std::ranges::max(bert_peaks({.name = "data_parallel", .devices = kDevices}).bytes)));
}

TEST(MemoryImbalance, SmallOutputsAsThoseOfPyramidNetMakeNoDifference) {
  const models::PyramidNetOptions sizes{.alpha = 12, .depth = 2, .blocks = 2};
  for (const char* name : {"data_parallel", "parallel_criterion"}) {
    SCOPED_TRACE(name);
    const StrategyOptions options{.name = name, .devices = kDevices};
    StrategyContext context = context_of(options);
    context.replica.model = {.name = "pyramidnet",
                             .build = [sizes](const nn::LayerOptions& layers, const models::ModelInput& input) {
                               return models::build_pyramidnet(sizes, layers, input);
                             }};
    context.replica.input = {.image = {3, 32, 32}, .classes = 10};
    const auto strategy = make_strategy(options, context);
    Datasets data;
    data.train =
        std::make_shared<ByteImages>(make_synthetic({.samples = 64, .image_shape = {3, 32, 32}}), Normalization{});
    EXPECT_LE(peaks_of(*strategy, data, 32).imbalance(), 1.1);
  }
}

}  // namespace memory_imbalance_test
}  // namespace dptrain::parallel
