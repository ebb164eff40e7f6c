// The order of the backward pass, the moment when a parameter's gradient is complete, and the tensors that a tape
// keeps.

#include "autograd/tape.h"

#include <deque>

#include "autograd/elementwise.h"
#include "autograd/linear.h"
#include "autograd/reduce.h"
#include "ops/add.h"
#include "support/expect_error.h"
#include "support/test_device.h"
#include "support/test_parameter.h"

namespace dptrain {
namespace {

using namespace testing;

class Tapes : public ::testing::Test {
 protected:
  /// A 2 x 2 weight with `value` in all elements.
  Parameter& weight(const std::string& name, float value = 1) {
    parameters_.push_back(test_parameter(*device_, {2, 2}, std::vector<float>(4, value), Layout::plain, name));
    return parameters_.back();
  }
  Variable ones(Tape& tape, bool requires_gradient = false) const {
    return tape.input(tensor_of(*device_, {1, 2}, {1, 1}), requires_gradient);
  }
  static Variable times(const Variable& x, Parameter& parameter) {
    return autograd::linear(x, x.tape().use(parameter), Variable());
  }
  Tensor one() const { return tensor_of(*device_, {1}, {1}); }
  /// Runs the backward pass and returns the names of parameters in the order in which they were ready.
  std::vector<std::string> ready_order(Tape& tape, const Variable& output) const {
    std::vector<std::string> order;
    tape.backward(output, one(), [&](Parameter& parameter) { order.push_back(parameter.name()); });
    return order;
  }

  std::unique_ptr<Device> device_ = test_device(1);
  std::deque<Parameter> parameters_;
};

TEST_F(Tapes, GradientsAreReadyFromTheEnd) {
  Parameter &a = weight("a"), &b = weight("b"), &c = weight("c");
  Tape tape(Tape::Mode::record);
  const Variable output = autograd::sum(times(times(times(ones(tape), a), b), c));
  EXPECT_EQ(ready_order(tape, output), (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_EQ(values_of(a.gradient()), std::vector<float>(4, 4));
}

TEST_F(Tapes, AParameterIsReadyOnceAfterItsFirstUseHasContributed) {
  Parameter &shared = weight("shared"), &between = weight("between");
  Tape tape(Tape::Mode::record);
  const Variable output = autograd::sum(times(times(times(ones(tape), shared), between), shared));
  std::vector<float> seen;
  std::vector<std::string> order;
  tape.backward(output, one(), [&](Parameter& parameter) {
    order.push_back(parameter.name());
    if (&parameter == &shared) seen = values_of(parameter.gradient());
  });
  EXPECT_EQ(order, (std::vector<std::string>{"between", "shared"}));
  // The later use contributes 4 to each element, and so does the earlier one: both had been added at the call.
  EXPECT_EQ(seen, std::vector<float>(4, 8));
}

TEST_F(Tapes, ABranchThatLeadsNowhereDoesNotHoldBackItsParameter) {
  Parameter &a = weight("a"), &unused = weight("unused");
  Tape tape(Tape::Mode::record);
  const Variable inner = times(ones(tape), a);
  times(inner, unused);  // no output depends on it
  times(inner, a);
  const Variable output = autograd::sum(inner);
  EXPECT_EQ(ready_order(tape, output), std::vector<std::string>{"a"});
  EXPECT_EQ(values_of(a.gradient()), std::vector<float>(4, 1));
  EXPECT_FALSE(unused.has_gradient());
}

TEST_F(Tapes, BackwardMayStartInTheMiddle) {
  Parameter &a = weight("a"), &b = weight("b");
  Tape tape(Tape::Mode::record);
  const Variable middle = autograd::sum(times(ones(tape), a));
  autograd::sum(times(ones(tape), b));
  EXPECT_EQ(ready_order(tape, middle), std::vector<std::string>{"a"});
  EXPECT_FALSE(b.has_gradient());
}

TEST_F(Tapes, GradientsOfTwoTapesAddUpUntilTheyAreForgotten) {
  Parameter& a = weight("a");
  const auto step = [&] {
    Tape tape(Tape::Mode::record);
    const Variable output = autograd::sum(times(ones(tape), a));
    EXPECT_EQ(ready_order(tape, output), std::vector<std::string>{"a"});
  };
  step();
  EXPECT_EQ(values_of(a.gradient()), std::vector<float>(4, 1));
  step();
  EXPECT_EQ(values_of(a.gradient()), std::vector<float>(4, 2));
  a.forget_gradient();
  step();
  EXPECT_EQ(values_of(a.gradient()), std::vector<float>(4, 1));
}

TEST_F(Tapes, SumsOfGradientsLeaveSharedOnesAlone) {
  Tape tape(Tape::Mode::record);
  const Variable x = ones(tape, true), y = ones(tape, true);
  // x + y passes one gradient to both, and three more are added to x.
  const Variable output = autograd::add(autograd::add(autograd::add(x, y), x), autograd::add(x, x));
  const Tensor gradient = tensor_of(*device_, {1, 2}, {1, 2});
  tape.backward(output, gradient);
  EXPECT_EQ(values_of(x.gradient()), (std::vector<float>{4, 8}));
  EXPECT_EQ(values_of(y.gradient()), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(gradient), (std::vector<float>{1, 2}));
}

TEST_F(Tapes, InputsGetGradientsWhereAsked) {
  Parameter& a = weight("a", 3);
  Tape tape(Tape::Mode::record);
  const Variable x = ones(tape, true), constant = ones(tape);
  const Variable output = autograd::sum(times(autograd::add(x, constant), a));
  tape.backward(output, one());
  EXPECT_EQ(values_of(x.gradient()), std::vector<float>(2, 6));
  EXPECT_FALSE(constant.gradient().defined());
}

TEST_F(Tapes, SavedValuesAreReleasedOnTheWay) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const auto activations = [&] { return device_->allocator().in_use()[MemoryPurpose::activations]; };
  const int64_t before = activations();
  Tape tape(Tape::Mode::record);
  Variable output = tape.input(Tensor::zeros(*device_, {kBytes / 4}), true);
  std::vector<int64_t> in_use;
  for (int layer = 0; layer < 4; ++layer) {
    output = autograd::relu(output);
    const Variable same = output;
    // A marker between the layers that notes the memory in use when the backward pass reaches it.
    output = tape.record(output.value(), {same}, [&in_use, &activations, same](const Tensor& gradient) {
      in_use.push_back(activations());
      same.add_gradient(gradient);
    });
  }
  output = autograd::sum(output);
  EXPECT_GE(activations() - before, 4 * kBytes);
  const Tensor gradient = one();
  tape.backward(output, gradient);
  ASSERT_EQ(in_use.size(), 4u);
  for (size_t i = 1; i < in_use.size(); ++i) EXPECT_LE(in_use[i], in_use[i - 1] - kBytes + 4096);
  output = Variable();
  EXPECT_LE(activations() - before, 4096);
}

/// `shared` is used three times, so the order of its additions matters.
TEST_F(Tapes, WeightsMayGetTheirGradientsInAPassOfTheirOwn) {
  const auto gradients = [this](bool apart) {
    Parameter &shared = weight("shared", 0.3f), &between = weight("between", 0.7f);
    Tape tape(Tape::Mode::record);
    const Variable x = ones(tape, true);
    const Variable output = autograd::sum(times(times(times(times(x, shared), between), shared), shared));
    if (apart) {
      tape.backward_data({{.output = output, .gradient = one()}});
      EXPECT_FALSE(shared.has_gradient() || between.has_gradient());
      EXPECT_TRUE(x.gradient().defined()) << "what goes back is there";
      tape.backward_weights();
    } else {
      tape.backward(output, one());
    }
    return std::vector{values_of(x.gradient()), values_of(shared.gradient()), values_of(between.gradient())};
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

/// Both operands of an addition get the same gradient tensor. An operator that adds to it in its own pass finds the
/// values that it finds in a single walk, so it computes the same. What gradients of weights are still to be computed
/// from stays unchanged.
TEST_F(Tapes, WhatIsKeptForWeightsIsNoOthersToChange) {
  const auto gradients = [this](bool apart) {
    Parameter &first = weight("first", 0.3f), &last = weight("last", 0.7f);
    Tape tape(Tape::Mode::record);
    const Variable value = times(ones(tape, true), first);
    bool found = false;
    const Variable same = tape.record(value.value(), {value}, [&, value](const Tensor& gradient) {
      Tensor sum = value.take_sum();
      found = sum.defined();
      if (found) ops::add_into(sum, gradient);
      value.add_gradient(sum);
    });
    std::vector<Tape::Root> roots;
    roots.push_back({.output = autograd::sum(autograd::add(value, times(same, last))), .gradient = one()});
    if (apart) {
      tape.backward_data(std::move(roots));
      tape.backward_weights();
    } else {
      tape.backward(std::move(roots));
    }
    EXPECT_TRUE(found);
    return std::vector{values_of(first.gradient()), values_of(last.gradient())};
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST_F(Tapes, WhatTheWeightsPassReadsIsReleasedOnItsWay) {
  const std::vector<Parameter*> weights = {&weight("a"), &weight("b"), &weight("c")};
  const auto activations = [&] { return device_->allocator().in_use()[MemoryPurpose::activations]; };
  const int64_t before = activations();
  std::vector<int64_t> in_use;
  Tape tape(Tape::Mode::record);
  Variable output = ones(tape, true);
  for (Parameter* of_layer : weights) {
    output = times(output, *of_layer);
    // A marker that notes the memory in use when the pass has gone through the later layers.
    output = tape.record(output.value(), {output}, [&, output = output.without_value()](const Tensor& gradient) {
      tape.in_weights_pass(gradient, [&](const Tensor&) { in_use.push_back(activations()); });
      output.add_gradient(gradient);
    });
  }
  tape.backward_data({{.output = autograd::sum(std::exchange(output, {})), .gradient = one()}});
  const int64_t kept = activations();
  tape.backward_weights();
  ASSERT_EQ(in_use.size(), 3u);
  EXPECT_EQ(in_use[0], kept);
  EXPECT_LT(in_use[1], in_use[0]);
  EXPECT_LT(in_use[2], in_use[1]);
  EXPECT_EQ(activations(), before);
}

TEST_F(Tapes, ValuesThatNoBackwardReadsEndWithTheirLastUse) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const auto activations = [&] { return device_->allocator().in_use()[MemoryPurpose::activations]; };
  const int64_t before = activations();
  Tape tape(Tape::Mode::record);
  const Variable x = tape.input(Tensor::zeros(*device_, {kBytes / 4}), true);
  Variable sum = x;
  for (int layer = 0; layer < 4; ++layer) sum = autograd::add(sum, x);
  const Variable output = autograd::sum(sum);
  sum = Variable();
  // Only x is left, which this test still holds.
  EXPECT_LE(activations() - before, kBytes + 4096);
  tape.backward(output, one());
  EXPECT_EQ(values_of(x.gradient())[0], 5);
}

/// With any number of readers, the operator gets at most two tensors.
TEST_F(Tapes, AnOperatorThatAddsUpGetsWhatTwoReadersGiveBack) {
  for (const size_t readers : {1u, 2u, 3u}) {
    SCOPED_TRACE(readers);
    Tape tape(Tape::Mode::record);
    std::vector<float> first, second;
    const Variable x = tape.input(one(), true);
    const Variable value = tape.record_summing(one(), {x}, [&](const ops::SummedGradient& gradient) {
      first = values_of(gradient.first);
      if (gradient.second.defined()) second = values_of(gradient.second);
    });
    std::vector<Tape::Root> roots;
    for (size_t reader = 0; reader < readers; ++reader)
      roots.push_back({.output = tape.record(one(), {value},
                                             [&value, scale = static_cast<float>(reader + 1)](const Tensor& gradient) {
                                               value.add_gradient(
                                                   tensor_of(gradient.device(), {1}, {scale * values_of(gradient)[0]}));
                                             }),
                       .gradient = one()});
    tape.backward(roots);
    // The last reader comes first, and gradients are added in that order: 3 and 2, then 1.
    EXPECT_EQ(first, std::vector<float>{readers == 3 ? 5.f : static_cast<float>(readers)});
    EXPECT_EQ(second, readers == 1 ? std::vector<float>() : std::vector<float>{1});
  }
}

/// A value that begins a stage has the same gradient as a value that the same tape has made, whether or not the
/// operator that made it adds up: its readers' gradients are added in one order.
TEST_F(Tapes, AddUpInOneOrderWhereverAValueBegins) {
  const std::vector<float> numbers = {0.3f, -1.7f, 2.9f, 0.05f};
  Parameter& a = weight("a", 0.37f);
  const auto read = [&](const Variable& x) {
    const Variable y = times(x, a);
    const Variable z = autograd::gelu(times(x, a));
    return autograd::add(autograd::add(autograd::gelu(x), y), autograd::add(autograd::tanh(x), z));
  };
  std::vector<std::vector<float>> gradients;
  for (const int kind : {0, 1, 2}) {
    Tape tape(Tape::Mode::record);
    const Variable input = tape.input(tensor_of(*device_, {2, 2}, numbers), true);
    Variable x = input;
    if (kind == 1)
      x = tape.record(input.value(), {input},
                      [&](const Tensor& gradient) { gradients.push_back(values_of(gradient)); });
    if (kind == 2)
      x = tape.record_summing(input.value(), {input}, [&](ops::SummedGradient gradient) {
        gradients.push_back(values_of(std::move(gradient).sum()));
      });
    tape.backward(read(x), tensor_of(*device_, {2, 2}, {0.7f, 1.1f, -0.9f, 3.3f}));
    if (kind == 0) gradients.push_back(values_of(input.gradient()));
  }
  EXPECT_EQ(gradients[1], gradients[0]);
  EXPECT_EQ(gradients[2], gradients[0]);
}

/// The gradient of a widening shortcut, beside other readers before and after it, to a value of any kind.
TEST_F(Tapes, AddTheFirstChannelsOfAWiderGradient) {
  const std::vector<float> shared = {1, 2, 3, 4}, wide = {10, 20, 30, 40, 50, 60};
  for (const bool sums : {false, true})
    for (const bool inside : {false, true})
      for (const std::vector<bool>& readers :
           std::vector<std::vector<bool>>{{true}, {true, false}, {false, true}, {true, true}, {true, false, true}}) {
        Tape tape(Tape::Mode::record);
        const Variable input = tape.input(tensor_of(*device_, {1, 2, 2, 1}, shared), true);
        std::vector<float> came;
        Variable x = input;
        if (inside && sums)
          x = tape.record_summing(input.value(), {input},
                                  [&](ops::SummedGradient gradient) { came = values_of(std::move(gradient).sum()); });
        else if (inside)
          x = tape.record(input.value(), {input}, [&](const Tensor& gradient) { came = values_of(gradient); });
        std::vector<Tape::Root> roots;
        std::vector<float> expected(4);
        for (const bool widens : readers) {
          roots.push_back(
              {.output = tape.record(one(), {x},
                                     [&, widens](const Tensor&) {
                                       if (widens)
                                         x.add_first_channels(tensor_of(*device_, {1, 3, 2, 1}, wide), Layout::plain);
                                       else
                                         x.add_gradient(tensor_of(*device_, {1, 2, 2, 1}, shared));
                                     }),
               .gradient = one()});
          for (size_t i = 0; i < 4; ++i) expected[i] += (widens ? wide : shared)[i];
        }
        tape.backward(roots);
        if (!inside) came = values_of(input.gradient());
        EXPECT_EQ(came, expected) << sums << inside << readers.size();
      }
}

TEST_F(Tapes, AWiderGradientIsTakenWhereItIsAllThatCame) {
  const auto wide = [&] { return tensor_of(*device_, {1, 3, 1, 1}, {1, 2, 3}); };
  Tape tape(Tape::Mode::record);
  const Variable x = tape.input(Tensor::zeros(*device_, {1, 2, 1, 1}), true);
  EXPECT_FALSE(x.take_wider().defined());
  x.add_first_channels(wide(), Layout::plain);
  EXPECT_EQ(values_of(x.take_wider()), (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(x.gradient().defined());
  x.add_first_channels(wide(), Layout::plain);
  x.add_gradient(tensor_of(*device_, {1, 2, 1, 1}, {10, 20}));
  EXPECT_FALSE(x.take_wider().defined());
  EXPECT_EQ(values_of(x.take_sum()), (std::vector<float>{11, 22}));
  x.add_first_channels(wide(), Layout::plain);
  EXPECT_EQ(values_of(x.take_sum()), (std::vector<float>{1, 2}));
  // Nothing is added to a value that receives no gradient.
  const Variable none = tape.input(Tensor::zeros(*device_, {1, 2, 1, 1}));
  none.add_first_channels(wide(), Layout::plain);
  EXPECT_FALSE(none.gradient().defined());
}

TEST_F(Tapes, WhatIsComputedAgainIsNotKept) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const auto activations = [&] { return device_->allocator().in_use()[MemoryPurpose::activations]; };
  const auto made = [&] { return Tensor::zeros(*device_, {kBytes / 4}); };
  for (const Tape::Mode mode : {Tape::Mode::record, Tape::Mode::recompute}) {
    const int64_t before = activations();
    int times = 0;
    Tape tape(mode);
    Variable x = tape.input(tensor_of(*device_, {1}, {1}), true);
    Variable value = tape.record_summing(
        made(), {x}, [](const ops::SummedGradient&) {},
        [&] {
          ++times;
          return made();
        });
    const Variable output = tape.record(
        one(), {value}, [saved = value.saved()](const Tensor&) { EXPECT_EQ(saved.value().elements(), kBytes / 4); });
    value = Variable();
    const bool kept = mode == Tape::Mode::record;
    EXPECT_EQ(activations() - before > kBytes, kept);
    EXPECT_EQ(times, 0);
    tape.backward(output, one());
    EXPECT_EQ(times, kept ? 0 : 1);
  }
}

/// Nothing is kept for a frozen layer that it could be computed again from.
TEST_F(Tapes, WhatNoGradientFlowsToIsNotComputedAgain) {
  int times = 0;
  Tape tape(Tape::Mode::recompute);
  const auto again = [&] {
    ++times;
    return one();
  };
  const Variable frozen = tape.record_summing(
      one(), {tape.input(one())}, [](const ops::SummedGradient&) {}, again);
  const Variable output =
      tape.record(one(), {frozen, tape.input(one(), true)},
                  [saved = frozen.saved()](const Tensor&) { EXPECT_TRUE(saved.value().defined()); });
  tape.backward(output, one());
  EXPECT_EQ(times, 0);
}

TEST_F(Tapes, ThatForgetKeepNothing) {
  constexpr int64_t kElements = int64_t{1} << 18;
  Parameter& a = weight("a");
  Tape tape(Tape::Mode::forget);
  EXPECT_FALSE(tape.recording());
  const int64_t before = device_->allocator().in_use().total_bytes();
  {
    Variable value = tape.input(Tensor::zeros(*device_, {kElements}), true);
    EXPECT_FALSE(value.requires_gradient());
    device_->allocator().reset_peak();
    for (int layer = 0; layer < 8; ++layer) value = autograd::relu(value);
    // Two tensors at a time: a layer's input and its output.
    EXPECT_LE(device_->allocator().peak_bytes() - before, 2 * kElements * 4 + 4096);
    times(ones(tape), a);
  }
  EXPECT_EQ(device_->allocator().in_use().total_bytes(), before);
  EXPECT_FALSE(a.has_gradient());
  const Variable output = times(ones(tape), a);
  expect_error(ExitCode::bug, {"was not recorded"}, [&] { tape.backward(output, one()); });
}

TEST_F(Tapes, PassOverRootsThatNothingTrainedHasAPartIn) {
  Tape tape(Tape::Mode::record);
  Parameter &a = weight("a"), &frozen = weight("b");
  frozen.freeze();
  const Variable trained = times(ones(tape), a), fixed = times(ones(tape), frozen);
  tape.backward({{.output = fixed, .gradient = fixed.value()}, {.output = trained, .gradient = trained.value()}});
  EXPECT_TRUE(a.has_gradient());
  EXPECT_FALSE(frozen.has_gradient());
}

TEST_F(Tapes, DoNotMix) {
  Tape first(Tape::Mode::record), second(Tape::Mode::record);
  const Variable a = ones(first, true), b = ones(second, true);
  expect_error(ExitCode::bug, {"another tape"}, [&] { autograd::add(a, b); });
}

TEST_F(Tapes, RefuseGradientsThatDoNotFit) {
  Parameter& a = weight("a");
  Tape tape(Tape::Mode::record);
  const Variable output = times(ones(tape), a);
  expect_error(ExitCode::bug, {"a gradient f32 [1]", "[1, 2]"}, [&] { tape.backward(output, one()); });
  expect_error(ExitCode::bug, {"no parameter"}, [&] { output.gradient_sink(); });
  expect_error(ExitCode::bug, {"through its sink"}, [&] { tape.use(a).add_gradient(a.value()); });
}

}  // namespace
}  // namespace dptrain
