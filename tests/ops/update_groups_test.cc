// Updates of all groups at once equal separate updates of each group bit for bit.

#include "ops/update_groups.h"

#include "ops/adam.h"
#include "ops/pytorch_cases.h"
#include "ops/reorder.h"
#include "ops/sgd.h"
#include "support/device_rows.h"
#include "support/expect_error.h"

namespace dptrain {
namespace update_groups_test {

using namespace testing;

/// Factors that multiply exactly, so that it doesn't matter where a product is rounded.
constexpr double kRate = 0.25, kDecay = 0.125;

/// Groups shorter than a vector of threads, and longer than what a thread takes at once.
const std::vector<ops::UpdateRun> kRuns = {{16, {10, 1}},      {48, {1, 0}},  {32, {10, 1}}, {16, {}},
                                           {40'000, {0.5, 3}}, {16, {10, 0}}, {17'024, {}},  {32, {0.5, 3}}};

std::vector<float> as_f32(const Tensor& copy) {
  const Tensor widened = Tensor::zeros(copy.device(), copy.shape());
  ops::reorder_into(copy, widened);
  return widened.values();
}

class UpdateGroups : public ::testing::TestWithParam<DeviceRow> {
 protected:
  static int64_t elements() {
    int64_t all = 0;
    for (const ops::UpdateRun& run : kRuns) all += run.elements;
    return all;
  }
  /// An optimizer's buffers; `range(begin, elements)` gives those of a range of weights.
  struct Buffers {
    std::vector<Tensor> of;  ///< weights, gradients, states
    Tensor copy;
    ops::UpdateControl control;

    Buffers range(int64_t begin, int64_t elements) const {
      Buffers some{.of = {}, .copy = copy.window(begin, {elements}, Layout::plain), .control = control};
      for (const Tensor& one : of) some.of.push_back(one.window(begin, {elements}, Layout::plain));
      return some;
    }
  };
  Buffers begin(Device& device) {
    Buffers buffers{.of = {}, .copy = Tensor::zeros(device, {elements()}, {.dtype = DType::bf16}), .control = {}};
    for (const uint64_t tensor : {kWeight, kOutputGradient})
      buffers.of.push_back(formula_tensor(device, {elements()}, {.tensor = tensor}));
    for (int state = 0; state < 2; ++state) buffers.of.push_back(Tensor::zeros(device, {elements()}));
    buffers.control.gradient_factor = tensor_of(device, {1}, {0.5f});
    return buffers;
  }
  /// Makes two steps over all weights at once, and over each run; `step(buffers, rate, decay, number, groups)`.
  template <class Step>
  void expect_equal_bits(const Step& step) {
    const auto device = GetParam().open();
    Buffers whole = begin(*device), parts = begin(*device);
    const ops::UpdateGroups groups = ops::make_update_groups(*device, kRuns);
    ASSERT_EQ(groups.count(), 5);
    for (int64_t number = 1; number <= 2; ++number) {
      step(whole, kRate, kDecay, number, groups);
      int64_t at = 0;
      for (const ops::UpdateRun& run : kRuns) {
        step(parts.range(at, run.elements), kRate * run.factors.learning_rate, kDecay * run.factors.weight_decay,
             number, {});
        at += run.elements;
      }
      // CPU workers multiply a part's gradients in place.
      for (Buffers* buffers : {&whole, &parts})
        buffers->of[1] = formula_tensor(*device, {elements()}, {.tensor = kOutputGradient + 10});
    }
    for (const size_t k : {0, 2, 3}) EXPECT_EQ(whole.of[k].values(), parts.of[k].values()) << k;
    EXPECT_EQ(as_f32(whole.copy), as_f32(parts.copy));
    // A range that begins in the middle of a group and doesn't end at a multiple of 16.
    const int64_t from = 96 + 16'000, some = 30'007;
    Buffers range = begin(*device).range(from, some);
    step(range, kRate, kDecay, 1, groups.range(from, some));
    const Buffers all = begin(*device);
    step(all, kRate, kDecay, 1, groups);
    EXPECT_EQ(range.of[0].values(), all.range(from, some).of[0].values());
  }
};

TEST_P(UpdateGroups, OfSgdAreUpdatedEachByItsNumbers) {
  for (const bool momentum : {false, true})
    expect_equal_bits([&](const Buffers& on, double rate, double decay, int64_t, const ops::UpdateGroups& groups) {
      ops::sgd_step(on.of[0], on.of[1], momentum ? on.of[2] : Tensor(),
                    {.learning_rate = rate,
                     .momentum = momentum ? 0.9 : 0,
                     .weight_decay = decay,
                     .nesterov = momentum,
                     .copy = on.copy,
                     .control = on.control,
                     .groups = groups});
    });
}

TEST_P(UpdateGroups, OfAdamAreUpdatedEachByItsNumbers) {
  for (const bool decoupled : {false, true})
    expect_equal_bits([&](const Buffers& on, double rate, double decay, int64_t step, const ops::UpdateGroups& groups) {
      ops::adam_step(on.of[0], on.of[1], {.first = on.of[2], .second = on.of[3]},
                     {.learning_rate = rate,
                      .step = step,
                      .weight_decay = decay,
                      .decoupled = decoupled,
                      .copy = on.copy,
                      .control = on.control,
                      .groups = groups});
    });
}

/// A recorded step of a GPU needs this.
TEST_P(UpdateGroups, MultiplyTheNumbersThatAreOnTheDevice) {
  const auto device = GetParam().open();
  if (device->kind() != DeviceKind::cuda) GTEST_SKIP() << "CPU workers are told numbers with each step";
  const ops::UpdateGroups groups = ops::make_update_groups(*device, kRuns);
  const auto number = [&](auto value, DType type) {
    const Tensor one = Tensor::zeros(*device, {1}, {.dtype = type});
    device->upload(one.raw(), &value, sizeof value);
    return one;
  };
  const auto stepped = [&](double rate, int64_t step, const ops::UpdateControl& control) {
    const Buffers on = begin(*device);
    ops::adam_step(on.of[0], on.of[1], {.first = on.of[2], .second = on.of[3]},
                   {.learning_rate = rate, .step = step, .weight_decay = kDecay, .control = control, .groups = groups});
    return on.of[0].values();
  };
  const std::vector<float> expected = stepped(0.25, 3, {});
  ops::UpdateControl control{.learning_rate = number(0.25f, DType::f32),
                             .step = number(int32_t{5}, DType::i32),
                             .skip = number(int32_t{0}, DType::i32),
                             .skipped = number(int64_t{2}, DType::i64)};
  EXPECT_EQ(stepped(100, 1, control), expected);
  control.skip = number(int32_t{1}, DType::i32);
  EXPECT_EQ(stepped(100, 1, control), begin(*device).of[0].values());
}

TEST(UpdateGroupsTable, IsLeftOutWhereAllWeightsAreUpdatedAlike) {
  const auto device = open_device({DeviceKind::cpu, 0});
  EXPECT_FALSE(ops::make_update_groups(*device, {{16, {}}, {32, {}}}).defined());
  EXPECT_FALSE(ops::make_update_groups(*device, {}).defined());
  EXPECT_EQ(ops::make_update_groups(*device, {{16, {2, 2}}}).count(), 1);
}

TEST(UpdateGroupsTable, HasAllWeightsInBlocks) {
  const auto device = open_device({DeviceKind::cpu, 0});
  const ops::UpdateGroups groups = ops::make_update_groups(*device, {{16, {2, 1}}, {32, {}}});
  const auto zeros = [&](int64_t count) { return Tensor::zeros(*device, {count}); };
  for (const int64_t count : {33, 48})
    EXPECT_NO_THROW(ops::sgd_step(zeros(count), zeros(count), {}, {.groups = groups})) << count;
  for (const int64_t count : {32, 49}) {
    expect_error(ExitCode::bug, {"sgd: groups of [3], expected"},
                 [&] { ops::sgd_step(zeros(count), zeros(count), {}, {.groups = groups}); });
    expect_error(ExitCode::bug, {"adam: groups of [3], expected"}, [&] {
      ops::adam_step(zeros(count), zeros(count), {.first = zeros(count), .second = zeros(count)},
                     {.step = 1, .groups = groups});
    });
  }
  expect_error(ExitCode::bug, {"groups of weights from 8 on"}, [&] { groups.range(8, 16); });
  expect_error(ExitCode::bug, {"8 weights in a row"}, [&] { ops::make_update_groups(*device, {{8, {}}}); });
}

INSTANTIATE_TEST_SUITE_P(Each, UpdateGroups, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace update_groups_test
}  // namespace dptrain
