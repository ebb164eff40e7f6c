// Steps of LARS and LAMB, whose sizes depend on norms of whole tensors, against the papers' formulas in double
// precision.

#include <cmath>
#include <limits>

#include "ops/lamb.h"
#include "ops/lars.h"
#include "ops/reorder.h"
#include "ops/square_digits.h"
#include "ops/tensor_squares.h"
#include "support/device_rows.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace layerwise_test {

using namespace testing;

/// Tensors shorter than a pack of threads and longer than a chunk, one that doesn't adapt, and one of zeros.
const std::vector<ops::TensorRun> kTensors = {{.tensor = 0, .elements = 48, .factors = {1, 2}},
                                              {.tensor = 1, .elements = 16, .factors = {3, 0}, .adapts = false},
                                              {.tensor = 2, .elements = 20'000},
                                              {.tensor = 3, .elements = 64, .factors = {0.5, 1}}};
constexpr int64_t kOfZeros = 3;
constexpr double kRate = 0.25, kDecay = 0.1;
constexpr float kFactor = 0.5f;

/// The reference in double precision; the rounding of stored values isn't part of it.
struct Reference {
  std::vector<double> weights, gradients, first, second;

  explicit Reference(const std::vector<float>& begun)
      : weights(begun.begin(), begun.end()), first(weights.size()), second(weights.size()) {}
};

double norm(const std::vector<double>& values, size_t begin, size_t count) {
  double squares = 0;
  for (size_t i = begin; i < begin + count; ++i) squares += values[i] * values[i];
  return std::sqrt(squares);
}

/// Calls step(run, begin, end) for every tensor.
template <class Step>
void for_each_tensor(const Step& step) {
  size_t begin = 0;
  for (const ops::TensorRun& run : kTensors) {
    step(run, begin, begin + static_cast<size_t>(run.elements));
    begin += static_cast<size_t>(run.elements);
  }
}

void lars_reference(Reference& on, double momentum, bool nesterov, double coefficient, double epsilon) {
  for_each_tensor([&](const ops::TensorRun& run, size_t begin, size_t end) {
    const double weights = norm(on.weights, begin, end - begin), gradients = norm(on.gradients, begin, end - begin),
                 decay = kDecay * run.factors.weight_decay;
    double ratio = 1;
    if (run.adapts && weights > 0 && gradients > 0)
      ratio = coefficient * weights / (gradients + decay * weights + epsilon);
    for (size_t i = begin; i < end; ++i) {
      const double g = ratio * (on.gradients[i] + decay * on.weights[i]);
      on.first[i] = momentum * on.first[i] + g;
      on.weights[i] -= kRate * run.factors.learning_rate * (nesterov ? g + momentum * on.first[i] : on.first[i]);
    }
  });
}

void lamb_reference(Reference& on, int step, double beta1, double beta2, double epsilon) {
  std::vector<double> along(on.weights.size());
  for_each_tensor([&](const ops::TensorRun& run, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      on.first[i] = beta1 * on.first[i] + (1 - beta1) * on.gradients[i];
      on.second[i] = beta2 * on.second[i] + (1 - beta2) * on.gradients[i] * on.gradients[i];
      along[i] = on.first[i] / (1 - std::pow(beta1, step)) /
                     (std::sqrt(on.second[i] / (1 - std::pow(beta2, step))) + epsilon) +
                 kDecay * run.factors.weight_decay * on.weights[i];
    }
    const double weights = norm(on.weights, begin, end - begin), length = norm(along, begin, end - begin);
    const double ratio = run.adapts && weights > 0 && length > 0 ? weights / length : 1;
    for (size_t i = begin; i < end; ++i) on.weights[i] -= kRate * run.factors.learning_rate * ratio * along[i];
  });
}

class Layerwise : public ::testing::TestWithParam<DeviceRow> {
 protected:
  static int64_t elements() {
    int64_t all = 0;
    for (const ops::TensorRun& run : kTensors) all += run.elements;
    return all;
  }
  static std::vector<float> first_weights() {
    std::vector<float> values = Formula{.tensor = 0}.values(elements());
    for_each_tensor([&](const ops::TensorRun& run, size_t begin, size_t end) {
      if (run.tensor == kOfZeros) std::fill(values.begin() + begin, values.begin() + end, 0.f);
    });
    return values;
  }
  struct Buffers {
    Tensor weights, gradients, first, second, copy, squares;
    ops::TensorTable table;
    ops::UpdateControl control;
  };
  Buffers begin(Device& device) const {
    const auto zeros = [&](DType type) { return Tensor::zeros(device, {elements()}, {.dtype = type}); };
    return {.weights = tensor_of(device, {elements()}, first_weights()),
            .gradients = zeros(DType::f32),
            .first = zeros(DType::f32),
            .second = zeros(DType::f32),
            .copy = zeros(DType::bf16),
            .squares = ops::no_tensor_squares(device, std::ssize(kTensors)),
            .table = ops::make_tensor_table(device, kTensors, std::ssize(kTensors)),
            .control = {.gradient_factor = tensor_of(device, {1}, {kFactor})}};
  }
  static std::vector<float> gradients_of(int step) {
    return Formula{.tensor = 100 + static_cast<uint64_t>(step), .scale = 0.1}.values(elements());
  }
  /// Makes three steps, `step(buffers, number)`, and compares each with `reference(on, number)`.
  template <class Step, class Follow>
  void expect_steps_of(const Follow& follow, const Step& step) const {
    const auto device = GetParam().open();
    const Buffers on = begin(*device);
    Reference reference(first_weights());
    for (int number = 1; number <= 3; ++number) {
      const std::vector<float> gradients = gradients_of(number);
      on.gradients.copy_from(tensor_of(*device, {elements()}, gradients));
      on.squares.fill_zero();
      step(on, number);
      reference.gradients.assign(gradients.begin(), gradients.end());
      for (double& gradient : reference.gradients) gradient *= kFactor;
      follow(reference, number);
    }
    const std::vector<float> weights = on.weights.values();
    for_each_tensor([&](const ops::TensorRun& run, size_t begin, size_t end) {
      SCOPED_TRACE(run.tensor);
      const double bound = 1e-6 * norm(reference.weights, begin, end - begin);
      for (size_t i = begin; i < end; ++i) ASSERT_NEAR(weights[i], reference.weights[i], bound) << i - begin;
    });
    const Tensor rounded = ops::converted(on.weights, {.dtype = DType::bf16});
    EXPECT_EQ(ops::converted(on.copy, {}).values(), ops::converted(rounded, {}).values());
  }
};

TEST_P(Layerwise, LarsGoesByTheNormsOfWeightsAndGradients) {
  for (const double momentum : {0.0, 0.9})
    expect_steps_of([&](Reference& on, int) { lars_reference(on, momentum, momentum > 0, 0.02, 1e-3); },
                    [&](const Buffers& on, int) {
                      ops::tensor_squares(on.weights, on.gradients, on.table, on.squares);
                      ops::lars_step(on.weights, on.gradients, momentum > 0 ? on.first : Tensor(), on.table, on.squares,
                                     {.learning_rate = kRate,
                                      .momentum = momentum,
                                      .weight_decay = kDecay,
                                      .nesterov = momentum > 0,
                                      .trust_coefficient = 0.02,
                                      .epsilon = 1e-3,
                                      .copy = on.copy,
                                      .control = on.control});
                    });
}

TEST_P(Layerwise, LambGoesByTheNormsOfWeightsAndSteps) {
  expect_steps_of([&](Reference& on, int number) { lamb_reference(on, number, 0.8, 0.9, 1e-3); },
                  [&](const Buffers& on, int number) {
                    const ops::LambOptions options{.learning_rate = kRate,
                                                   .step = number,
                                                   .beta1 = 0.8,
                                                   .beta2 = 0.9,
                                                   .epsilon = 1e-3,
                                                   .weight_decay = kDecay,
                                                   .copy = on.copy,
                                                   .control = on.control};
                    const ops::AdamMoments moments{.first = on.first, .second = on.second};
                    ops::lamb_measure(on.weights, on.gradients, moments, on.table, on.squares, options);
                    ops::lamb_step(on.weights, moments, on.table, on.squares, options);
                  });
}

/// A recorded step of a GPU needs this.
TEST_P(Layerwise, StepsReadTheirNumbersOnTheDevice) {
  const auto device = GetParam().open();
  if (device->kind() != DeviceKind::cuda) GTEST_SKIP() << "CPU workers are told numbers with each step";
  const auto number = [&](auto value, DType type) {
    const Tensor one = Tensor::zeros(*device, {1}, {.dtype = type});
    device->upload(one.raw(), &value, sizeof value);
    return one;
  };
  ops::UpdateControl control{.learning_rate = number(0.25f, DType::f32),
                             .step = number(int32_t{5}, DType::i32),
                             .skip = number(int32_t{0}, DType::i32),
                             .skipped = number(int64_t{2}, DType::i64)};
  const auto lamb = [&](double rate, int64_t step, const ops::UpdateControl& by) {
    const Buffers on = begin(*device);
    on.gradients.copy_from(tensor_of(*device, {elements()}, gradients_of(1)));
    const ops::LambOptions options{.learning_rate = rate, .step = step, .weight_decay = kDecay, .control = by};
    const ops::AdamMoments moments{.first = on.first, .second = on.second};
    ops::lamb_measure(on.weights, on.gradients, moments, on.table, on.squares, options);
    ops::lamb_step(on.weights, moments, on.table, on.squares, options);
    return std::pair(on.weights.values(), on.first.values());
  };
  const auto lars = [&](double rate, const ops::UpdateControl& by) {
    const Buffers on = begin(*device);
    on.gradients.copy_from(tensor_of(*device, {elements()}, gradients_of(1)));
    ops::tensor_squares(on.weights, on.gradients, on.table, on.squares);
    ops::lars_step(on.weights, on.gradients, on.first, on.table, on.squares,
                   {.learning_rate = rate, .momentum = 0.9, .control = by});
    return std::pair(on.weights.values(), on.first.values());
  };
  EXPECT_EQ(lamb(100, 1, control), lamb(0.25, 3, {}));
  EXPECT_EQ(lars(100, control), lars(0.25, {}));
  control.skip = number(int32_t{1}, DType::i32);
  const std::pair begun(first_weights(), std::vector<float>(first_weights().size()));
  EXPECT_EQ(lamb(100, 1, control), begun);
  EXPECT_EQ(lars(100, control), begun);
}

/// Tiny gradients give a ratio that f32 can't hold.
TEST_P(Layerwise, WhatHardlyMovesStaysFinite) {
  const auto device = GetParam().open();
  const Buffers on = begin(*device);
  on.gradients.copy_from(tensor_of(*device, {elements()}, std::vector<float>(static_cast<size_t>(elements()), 1e-44f)));
  ops::tensor_squares(on.weights, on.gradients, on.table, on.squares);
  ops::lars_step(on.weights, on.gradients, {}, on.table, on.squares,
                 {.learning_rate = kRate, .trust_coefficient = 1, .epsilon = 0});
  for (size_t i = 0; i < first_weights().size(); ++i)
    ASSERT_NEAR(on.weights.values()[i], first_weights()[i], 1e-12) << i;
  // The directions are short compared with the large epsilon.
  const ops::LambOptions options{.learning_rate = 1e-6, .step = 1, .epsilon = 1e4};
  const ops::AdamMoments moments{.first = on.first, .second = on.second};
  on.squares.fill_zero();
  ops::lamb_measure(on.weights, on.gradients, moments, on.table, on.squares, options);
  ops::lamb_step(on.weights, moments, on.table, on.squares, options);
  for (const float weight : on.weights.values()) ASSERT_TRUE(std::isfinite(weight));
}

/// A tensor whose norm isn't finite is lost, which the run then reports; the other tensors aren't affected.
TEST_P(Layerwise, ANormThatIsNoNumberIsThatOfItsTensorAlone) {
  const auto device = GetParam().open();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool is_gradient : {true, false})
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInfinity})
      for (const bool lamb : {false, true}) {
        SCOPED_TRACE(::testing::Message() << (is_gradient ? "gradient " : "weight ") << value << (lamb ? " lamb" : ""));
        const Buffers on = begin(*device);
        std::vector<float> weights = first_weights(), gradients = gradients_of(1);
        (is_gradient ? gradients : weights)[20] = value;
        on.weights.copy_from(tensor_of(*device, {elements()}, weights));
        on.gradients.copy_from(tensor_of(*device, {elements()}, gradients));
        if (lamb) {
          const ops::LambOptions options{.learning_rate = kRate, .step = 1};
          const ops::AdamMoments moments{.first = on.first, .second = on.second};
          ops::lamb_measure(on.weights, on.gradients, moments, on.table, on.squares, options);
          ops::lamb_step(on.weights, moments, on.table, on.squares, options);
        } else {
          ops::tensor_squares(on.weights, on.gradients, on.table, on.squares);
          ops::lars_step(on.weights, on.gradients, {}, on.table, on.squares, {.learning_rate = kRate});
        }
        weights = on.weights.values();
        for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(std::isnan(weights[i]), i < 48) << i;
      }
}

/// Replicas on unlike devices that each make the update must stay equal.
TEST_P(Layerwise, LarsIsTheSameBitsOnEveryDevice) {
  const auto device = GetParam().open(), cpu = open_device({DeviceKind::cpu, 0});
  const auto stepped = [&](Device& on_device) {
    const Buffers on = begin(on_device);
    for (int step = 1; step <= 3; ++step) {
      on.gradients.copy_from(tensor_of(on_device, {elements()}, gradients_of(step)));
      on.squares.fill_zero();
      ops::tensor_squares(on.weights, on.gradients, on.table, on.squares);
      ops::lars_step(on.weights, on.gradients, on.first, on.table, on.squares,
                     {.learning_rate = kRate,
                      .momentum = 0.9,
                      .weight_decay = kDecay,
                      .trust_coefficient = 0.02,
                      .control = on.control});
    }
    return on.weights.values();
  };
  EXPECT_EQ(stepped(*device), stepped(*cpu));
}

TEST(TensorTable, HasBuffersOfAsManyWeights) {
  const auto device = open_device({DeviceKind::cpu, 0});
  const ops::TensorTable table =
      ops::make_tensor_table(*device, {{.tensor = 1, .elements = 8192}, {.tensor = 1, .elements = 32}}, 3);
  EXPECT_EQ(table.elements, 8224);
  EXPECT_EQ(stored_values<int64_t>(table.chunks), (std::vector<int64_t>{0, 8192, 1, 8192, 32, 1}));
  EXPECT_EQ(stored_values<int64_t>(table.of_tensors), (std::vector<int64_t>{0, 0, 0, 2, 0, 0}));
  const Tensor squares = ops::no_tensor_squares(*device, 3), right = Tensor::zeros(*device, {8224}),
               wrong = Tensor::zeros(*device, {8192});
  EXPECT_NO_THROW(ops::tensor_squares(right, right, table, squares));
  expect_error(ExitCode::bug, {"tensor_squares", "[8192]", "[8224]"},
               [&] { ops::tensor_squares(right, wrong, table, squares); });
  expect_error(ExitCode::bug, {"tensor_squares", "sums of squares", "[2, 2, 16]", "[3, 2, 16]"},
               [&] { ops::tensor_squares(right, right, table, ops::no_tensor_squares(*device, 2)); });
  expect_error(ExitCode::bug, {"lamb: nothing has been measured"},
               [&] { ops::lamb_step(right, {.first = right, .second = right}, table, {}, {.step = 1}); });
  expect_error(ExitCode::bug, {"8 weights of tensor 0"},
               [&] { ops::make_tensor_table(*device, {{.tensor = 0, .elements = 8}}, 1); });
  expect_error(ExitCode::bug, {"16 weights of tensor 0 of 2 behind tensor 1"}, [&] {
    ops::make_tensor_table(*device, {{.tensor = 1, .elements = 16}, {.tensor = 0, .elements = 16}}, 2);
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, Layerwise, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace layerwise_test
}  // namespace dptrain
