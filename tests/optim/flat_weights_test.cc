// Optimizers over ranges of flat buffers, as strategies shard them over devices.

#include "optim/flat_weights.h"

#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace {

using namespace testing;

constexpr int64_t kElements = 50'000;  // a multiple of 16, more than one run of any kernel

using Make = std::function<std::unique_ptr<optim::Optimizer>(const optim::FlatWeights&)>;

struct NamedOptimizer {
  std::string name;
  Make make;
  bool measures = false;
};

template <class Optimizer, class Settings>
Make maker(const Settings& settings) {
  return [settings](const optim::FlatWeights& flat) { return std::make_unique<Optimizer>(flat, settings); };
}

std::vector<NamedOptimizer> optimizers() {
  using optim::Adam, optim::Lamb, optim::Lars, optim::Sgd;
  return {{"sgd", maker<Sgd>(optim::SgdSettings{.weight_decay = 0.1})},
          {"momentum", maker<Sgd>(optim::SgdSettings{.momentum = 0.9, .weight_decay = 0.1})},
          {"nesterov", maker<Sgd>(optim::SgdSettings{.momentum = 0.9, .nesterov = true})},
          {"adam", maker<Adam>(optim::AdamSettings{.weight_decay = 0.1})},
          {"adamw", maker<Adam>(optim::AdamSettings{.weight_decay = 0.1, .decoupled = true})},
          {"lars", maker<Lars>(optim::LarsSettings{.momentum = 0, .weight_decay = 0.1}), true},
          {"lars with momentum",
           maker<Lars>(optim::LarsSettings{.weight_decay = 0.1, .nesterov = true, .adapts_vectors = true}), true},
          {"lamb", maker<Lamb>(optim::LambSettings{.weight_decay = 0.1}), true},
          {"lamb of vectors", maker<Lamb>(optim::LambSettings{.adapts_vectors = true}), true}};
}

class FlatRanges : public ::testing::TestWithParam<DeviceRow> {
 protected:
  /// Weights, their copies in bf16 (widened) and the optimizer's state after three steps over the ranges between
  /// `cuts`.
  std::vector<std::vector<float>> after_steps(const NamedOptimizer& one, const std::vector<int64_t>& cuts) const {
    const auto device = GetParam().open();
    const optim::FlatWeights flat{
        .weights = formula_tensor(*device, {kElements}, {.tensor = 0}),
        .gradients = Tensor::empty(*device, {kElements}),
        .copies = Tensor::zeros(*device, {kElements}, {.dtype = DType::bf16}),
        .runs = {{.parameter = 0, .elements = 48, .dimensions = 2},
                 {.parameter = 1, .elements = 16, .dimensions = 1, .factors = {3, 0}},
                 {.parameter = 2, .elements = kElements - 64, .dimensions = 4, .factors = {0.5, 2}}},
        .parameters = 3};
    std::vector<std::unique_ptr<optim::Optimizer>> ranges;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) ranges.push_back(one.make(flat.range(cuts[i], cuts[i + 1])));
    const Tensor half = Tensor::from(*device, {1}, std::vector<float>{0.5f});
    for (int64_t step = 1; step <= 3; ++step) {
      flat.gradients.copy_from(formula_tensor(*device, {kElements}, {.tensor = 3}));
      optim::OptimizerStep how{.learning_rate = 0.1, .number = step, .control = {.gradient_factor = half}};
      if (one.measures) how.squares = ops::no_tensor_squares(*device, flat.parameters);
      for (const auto& range : ranges) range->measure(how, how.squares);
      for (const auto& range : ranges) range->step(how);
    }
    std::vector<std::vector<float>> values = {flat.weights.values(), ops::converted(flat.copies, {}).values()};
    for (size_t kept = 0; kept < ranges[0]->state().size(); ++kept) {
      std::vector<float> joined;
      for (const auto& range : ranges) {
        const std::vector<float> part = range->state()[kept].values.values();
        joined.insert(joined.end(), part.begin(), part.end());
      }
      values.push_back(std::move(joined));
    }
    return values;
  }
};

TEST_P(FlatRanges, AreUpdatedInTheBitsOfTheWhole) {
  for (const NamedOptimizer& one : optimizers()) {
    SCOPED_TRACE(one.name);
    const auto whole = after_steps(one, {0, kElements});
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 16, 16, kElements},
                                             {0, 16'672, 33'328, kElements},
                                             {0, 16'384, 16'400, 49'984, kElements}})
      EXPECT_TRUE(after_steps(one, cuts) == whole) << cuts.size() - 1 << " ranges";
  }
}

TEST_P(FlatRanges, AreUpdatedByOneOptimizerToo) {
  // Gradients that arrive range by range, as where they are held by ranges.
  const auto device = GetParam().open();
  for (const NamedOptimizer& one : optimizers()) {
    if (one.measures) continue;  // they need all gradients at once
    SCOPED_TRACE(one.name);
    std::vector<std::vector<float>> weights;
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, kElements}, {0, 16'672, 33'328, kElements}}) {
      const optim::FlatWeights flat{.weights = formula_tensor(*device, {kElements}, {.tensor = 0}), .gradients = {}};
      const auto optimizer = one.make(flat);
      const Tensor gradients = formula_tensor(*device, {kElements}, {.tensor = 3});
      for (int64_t step = 1; step <= 3; ++step)
        for (size_t i = 0; i + 1 < cuts.size(); ++i)
          optimizer->step_range(cuts[i], gradients.window(cuts[i], {cuts[i + 1] - cuts[i]}, Layout::plain),
                                {.learning_rate = 0.1, .number = step});
      weights.push_back(flat.weights.values());
    }
    EXPECT_TRUE(weights[0] == weights[1]);
  }
}

TEST_P(FlatRanges, LeaveWhatLiesBesideThem) {
  const auto device = GetParam().open();
  const optim::FlatWeights flat{.weights = Tensor::zeros(*device, {64}),
                                .gradients = Tensor::from(*device, {64}, std::vector<float>(64, 1.f))};
  optim::Sgd(flat.range(16, 48), {}).step({.learning_rate = 1});
  const std::vector<float> weights = flat.weights.values();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i], i >= 16 && i < 48 ? -1.f : 0.f) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, FlatRanges, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace
}  // namespace dptrain
