// Modules, and the memory of a whole model: two flat buffers in the order of registration.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "nn/layers.h"
#include "nn/named_values.h"
#include "support/expect_error.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace {

using namespace testing;

/// A convolution with batch norm, and a linear layer: a parameter of every kind of layout.
class Stage final : public nn::Module {
 public:
  explicit Stage(const nn::LayerOptions& options)
      : convolution_(add_child<nn::Conv2d>(
            "conv", options,
            nn::Conv2dSizes{.in_channels = 16, .out_channels = 20, .kernel = 3, .padding = 1, .bias = false})),
        norm_(add_child<nn::BatchNorm>("bn", 20, ops::BatchNormOptions{.relu = true})) {}
  Variable forward(const Variable& x, const nn::ForwardContext& context) override {
    return norm_.forward(convolution_.forward(x, context), context);
  }

 private:
  nn::Conv2d& convolution_;
  nn::BatchNorm& norm_;
};

class Models : public ::testing::Test {
 protected:
  std::unique_ptr<nn::Model> model(const nn::InitializationOptions& options = {},
                                   const nn::StageRanges& part = {{}}) const {
    auto model = std::make_unique<nn::Model>();
    model->add_stage(std::make_unique<Stage>(nn::LayerOptions{.device = *device_}), "first.");
    model->add_stage(std::make_unique<Stage>(nn::LayerOptions{.device = *device_}));
    model->add_stage(std::make_unique<nn::Linear>(3, 5));
    model->place(*device_, options, DType::f32, part);
    return model;
  }
  std::unique_ptr<Device> device_ = test_device();
};

TEST_F(Models, NameTheirTensorsInOrder) {
  std::vector<std::string> names;
  for (const auto& tensor : nn::state_dict(*model())) names.push_back(tensor.name + " " + tensor.shape.text());
  EXPECT_EQ(names,
            (std::vector<std::string>{"first.conv.weight [20, 16, 3, 3]", "first.bn.weight [20]", "first.bn.bias [20]",
                                      "conv.weight [20, 16, 3, 3]", "bn.weight [20]", "bn.bias [20]", "weight [5, 3]",
                                      "bias [5]", "first.bn.running_mean [20]", "first.bn.running_var [20]",
                                      "bn.running_mean [20]", "bn.running_var [20]"}));
}

TEST_F(Models, GiveTheirStateTensorByTensorInTheOrderOfNames) {
  const auto placed = model({.seed = 3});
  auto expected = nn::state_dict(*placed);
  std::ranges::sort(expected, {}, &nn::NamedValues::name);
  size_t taken = 0;
  nn::for_each_state(*placed, [&](const nn::NamedValues& tensor) {
    ASSERT_LT(taken, expected.size());
    EXPECT_EQ(tensor.name, expected[taken].name);
    EXPECT_EQ(tensor.shape, expected[taken].shape);
    EXPECT_EQ(tensor.values, expected[taken].values);
    ++taken;
  });
  EXPECT_EQ(taken, expected.size());
}

TEST_F(Models, KeepWeightsAndGradientsInFlatBuffers) {
  const auto placed = model();
  const Tensor &weights = placed->weights(), &gradients = placed->gradients();
  EXPECT_EQ(weights.shape(), gradients.shape());
  int64_t end = 0, elements = 0;
  for (const Parameter* parameter : placed->parameters()) {
    const int64_t offset = placed->offset(*parameter);
    EXPECT_GE(offset, end) << parameter->name();
    EXPECT_LT(offset, end + 16) << parameter->name();
    EXPECT_EQ(offset % 16, 0) << "a cache line";
    EXPECT_EQ(parameter->value().raw() - weights.raw(), 4 * offset);
    EXPECT_EQ(parameter->gradient().raw() - gradients.raw(), 4 * offset);
    end = offset + parameter->value().storage_elements();
    elements += parameter->shape().elements();
  }
  EXPECT_EQ(weights.elements(), (end + 15) / 16 * 16);
  EXPECT_EQ(placed->parameter_elements(), elements);
}

TEST_F(Models, KeepPaddingZero) {
  // Norms of the flat buffers, and sums over ranks, rely on it. Memory that another model has used isn't zero.
  {
    const auto earlier = model();
    for (const Tensor& tensor : {earlier->weights(), earlier->gradients()})
      std::fill_n(tensor.data<float>(), tensor.elements(), 9.f);
  }
  const auto placed = model({.weights = nn::Initializer::constant(1)});
  double total = 0, expected = 0;
  for (const float value : placed->weights().values()) total += value;
  for (const Parameter* parameter : placed->parameters())
    for (const float value : values_of(parameter->value())) expected += value;
  EXPECT_EQ(total, expected);
  EXPECT_EQ(placed->gradients().values(), std::vector<float>(static_cast<size_t>(placed->gradients().elements())));
}

TEST_F(Models, HoldGradientsByRunsWhileTheyAreThere) {
  const auto placed = model();
  const int count = static_cast<int>(placed->parameters().size());
  const int64_t cut = placed->offset(*placed->parameters()[3]), end = placed->weights().elements();
  const auto held = [&] { return device_->allocator().in_use()[MemoryPurpose::gradients]; };
  placed->hold_gradients_by_runs({{.first_parameter = 3, .end_parameter = count, .begin = cut, .end = end},
                                  {.first_parameter = 0, .end_parameter = 3, .begin = 0, .end = cut}});
  EXPECT_EQ(held(), 0);
  {  // Memory that was used before isn't zero.
    const Tensor before = Tensor::empty(*device_, {end});
    std::fill_n(before.data<float>(), end, 9.f);
  }
  Parameter& last = *placed->parameters().back();
  last.gradient_to_write().fill_zero();
  EXPECT_EQ(held(), 4 * (end - cut)) << "its run's alone";
  EXPECT_FALSE(placed->parameters()[0]->gradient().defined());
  for (Parameter* parameter : placed->parameters()) parameter->gradient_to_write().fill_zero();
  std::vector<int64_t> begins;
  placed->for_gradients([&](int64_t begin, const Tensor& gradients) {
    begins.push_back(begin);
    EXPECT_EQ(gradients.values(), std::vector<float>(static_cast<size_t>(gradients.elements()))) << "with its padding";
    EXPECT_EQ(placed->gradients(begin, begin + 16).raw(), gradients.raw());
  });
  EXPECT_EQ(begins, (std::vector<int64_t>{0, cut}));
  placed->forget_gradients();
  EXPECT_EQ(held(), 0);
  last.gradient_to_write().fill_zero();
  EXPECT_EQ(held(), 4 * (end - cut)) << "again";
}

TEST_F(Models, CountTheirMemoryByPurpose) {
  const auto placed = model();
  const MemoryCounts counts = device_->allocator().in_use();
  EXPECT_GE(counts[MemoryPurpose::weights], placed->weights().bytes() + placed->running_states().bytes());
  EXPECT_GE(counts[MemoryPurpose::gradients], placed->gradients().bytes());
  EXPECT_EQ(counts[MemoryPurpose::activations], 0);
  EXPECT_EQ(counts[MemoryPurpose::workspace], 0);
}

TEST_F(Models, TakeAnotherInitializerForWeightsAlone) {
  const auto placed = model({.weights = nn::Initializer::constant(0.25)});
  for (const Parameter* parameter : placed->parameters()) {
    const std::vector<float> values = values_of(parameter->value());
    const bool all = std::ranges::all_of(values, [](float value) { return value == 0.25f; });
    EXPECT_EQ(all, parameter->shape().rank() > 1) << parameter->name();
  }
}

TEST_F(Models, PartsHaveTheValuesOfTheWhole) {
  const auto whole = model({.seed = 7});
  const int64_t bytes = whole->weights().bytes();
  std::map<std::string, std::vector<float>> expected, got;
  for (const auto& tensor : nn::state_dict(*whole)) expected[tensor.name] = tensor.values;
  for (const nn::StageRange part : {nn::StageRange{0, 1}, nn::StageRange{1, 3}}) {
    const auto placed = model({.seed = 7}, {part});
    EXPECT_LT(placed->weights().bytes(), bytes);
    EXPECT_EQ(placed->has_beginning(), part.begin == 0);
    EXPECT_EQ(placed->has_end(), part.end == 3);
    for (const auto& tensor : nn::state_dict(*placed)) got[tensor.name] = tensor.values;
  }
  EXPECT_EQ(got, expected);
}

TEST_F(Models, PartsComputeWhatTheWholeDoes) {
  const auto whole = model(), first = model({}, {{0, 1}}), second = model({}, {{1, 2}});
  Tape tape(Tape::Mode::forget);
  const Variable x = tape.input(formula_tensor(*device_, {2, 16, 5, 5}, {}));
  // Both convolutions expect 16 channels.
  EXPECT_EQ(values_of(first->outputs(x, {.tape = tape}).front().value()),
            values_of(whole->stage(0).forward(x, {.tape = tape}).value()));
  EXPECT_EQ(values_of(second->outputs(x, {.tape = tape}).front().value()),
            values_of(whole->stage(1).forward(x, {.tape = tape}).value()));
}

TEST_F(Models, APartMayLieAroundAnother) {
  const auto whole = model({.seed = 7}), around = model({.seed = 7}, {{0, 1}, {2, 3}}), between = model({}, {{1, 2}});
  EXPECT_TRUE(around->has_beginning() && around->has_end());
  EXPECT_FALSE(between->has_beginning() || between->has_end());
  EXPECT_EQ(around->parameter_elements() + between->parameter_elements(), whole->parameter_elements());
  const auto counts = [](const nn::Model& of) {
    std::vector<std::array<size_t, 2>> all;
    for (const nn::Model::Held& held : of.held_by_range()) all.push_back({held.parameters, held.states});
    return all;
  };
  // A convolution's weight with its norm's two parameters and two statistics; a linear layer's two parameters.
  EXPECT_EQ(counts(*around), (std::vector<std::array<size_t, 2>>{{3, 2}, {2, 0}}));
  EXPECT_EQ(counts(*whole), (std::vector<std::array<size_t, 2>>{{8, 4}}));
  Tape tape(Tape::Mode::forget);
  const Variable x = tape.input(formula_tensor(*device_, {2, 16, 5, 5}, {})),
                 rows = tape.input(formula_tensor(*device_, {2, 3}, {}));
  EXPECT_EQ(values_of(around->outputs(x, {.tape = tape}, {0, 1}).front().value()),
            values_of(whole->stage(0).forward(x, {.tape = tape}).value()));
  EXPECT_EQ(values_of(around->outputs(rows, {.tape = tape}, {2, 3}).front().value()),
            values_of(whole->stage(2).forward(rows, {.tape = tape}).value()));
}

TEST_F(Models, StagesAreCalledByTheirPrefixOrTheirFirstChild) {
  const auto placed = model();
  EXPECT_EQ(placed->stage_name(0), "first");
  EXPECT_EQ(placed->stage_name(1), "conv");
  EXPECT_EQ(placed->stage_name(2), "weight");
}

/// Multiplies by its own weight, or by another stage's.
class Tied final : public nn::Module {
 public:
  explicit Tied(Parameter* other = nullptr) {
    if (other != nullptr) add_tied("again", *other);
    weight_ = other != nullptr ? other : &add_parameter("weight", {3, 3}, nn::Initializer::normal(1));
    add_parameter("bias", {3}, nn::Initializer::normal(1));
  }
  Parameter& weight() { return *weight_; }
  Variable forward(const Variable& x, const nn::ForwardContext&) override { return x; }

 private:
  Parameter* weight_;
};

TEST_F(Models, APartHoldsWhatItIsTiedToBehindItsOwn) {
  const auto made = [&](const nn::StageRange& part) {
    auto model = std::make_unique<nn::Model>();
    auto first = std::make_unique<Tied>();
    Parameter& weight = first->weight();
    model->add_stage(std::move(first), "first.");
    model->add_stage(std::make_unique<Tied>(&weight), "second.");
    model->place(*device_, {.seed = 3}, DType::f32, {part});
    return model;
  };
  const auto whole = made({}), first = made({0, 1}), second = made({1, 2});
  EXPECT_EQ(whole->borrowed_parameters().size(), 0u);
  EXPECT_EQ(first->borrowed_parameters().size(), 0u);
  ASSERT_EQ(second->borrowed_parameters().size(), 1u);
  const Parameter& borrowed = *second->borrowed_parameters()[0];
  EXPECT_EQ(borrowed.name(), "first.weight");
  EXPECT_EQ(values_of(borrowed.value()), values_of(whole->parameters()[0]->value())) << "its first values, too";
  EXPECT_EQ(second->own_gradients().elements(), second->offset(borrowed)) << "without what is another's";
  std::vector<std::string> names;
  for (const auto& tensor : nn::state_dict(*second)) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"second.bias", "second.again"})) << "each is saved once";
}

TEST_F(Models, ForgetGradientsAtOnce) {
  const auto placed = model();
  for (Parameter* parameter : placed->parameters()) parameter->mark_gradient();
  placed->forget_gradients();
  for (const Parameter* parameter : placed->parameters()) EXPECT_FALSE(parameter->has_gradient());
}

TEST_F(Models, ArePlacedOnce) {
  const auto placed = model();
  expect_error(ExitCode::bug, {"placed once"}, [&] { placed->place(*device_, {}); });
  EXPECT_EQ(placed->stage_count(), 3);
  EXPECT_EQ(&placed->device(), device_.get());
}

TEST_F(Models, NormalizeByTheBatchInTrainingOnly) {
  const auto norm = [&] {
    auto alone = std::make_unique<nn::Model>();
    alone->add_stage(std::make_unique<nn::BatchNorm>(3));
    alone->place(*device_, {});
    return alone;
  }();
  Tape tape(Tape::Mode::forget);
  const Variable x = tape.input(formula_tensor(*device_, {2, 3, 4, 4}, {.centre = 5}));
  norm->forward(x, {.tape = tape});
  EXPECT_EQ(norm->states()[0]->value.values(), std::vector<float>(3, 0));
  norm->forward(x, {.tape = tape, .training = true});
  for (const float mean : norm->states()[0]->value.values()) EXPECT_NEAR(mean, 0.5, 0.05);
}

TEST_F(Models, DropInTrainingOnlyAndByLayer) {
  nn::Dropout first(0.5f, 1), second(0.5f, 2), none(0.f, 3);
  Tape tape(Tape::Mode::forget);
  const Variable x = tape.input(formula_tensor(*device_, {4, 100}, {.centre = 3}));
  const nn::ForwardContext training{.tape = tape,
                                    .training = true,
                                    .seed = 1,
                                    .epoch = epoch_on(*device_, 0),
                                    .sample_ids = sample_ids_on(*device_, 0, 4)};
  const auto values = [](const Variable& variable) { return values_of(variable.value()); };
  EXPECT_EQ(values(first.forward(x, {.tape = tape})), values(x));
  EXPECT_EQ(values(none.forward(x, training)), values(x));
  EXPECT_NE(values(first.forward(x, training)), values(x));
  EXPECT_EQ(values(first.forward(x, training)), values(first.forward(x, training)));
  EXPECT_NE(values(first.forward(x, training)), values(second.forward(x, training)));
}

TEST(NamedValues, WhatIsAbsentIsNamedBesideWhatThereIs) {
  const std::vector<nn::NamedValues> expected = {{"fc.weight", {2}, {1, 2}}};
  const auto refused = [&](const std::vector<nn::NamedValues>& got, std::string_view advice) {
    expect_error(ExitCode::bad_data,
                 {"a.safetensors: fc.weight: expected a tensor of [2], got none of that name; ", advice},
                 [&] { nn::require_same_tensors(expected, got, "a.safetensors"); });
  };
  refused({{"fc.weigth", {2}, {1, 2}}}, "did you mean 'fc.weigth'?");
  refused({{"conv1", {1}, {1}}, {"conv2", {1}, {1}}}, "it has conv1, conv2");
  refused({}, "it has no tensors");
  // bn2.bias is one of the model's own names, so it can't be a misspelled bn1.bias.
  expect_error(ExitCode::bad_data, {"bn1.bias: expected a tensor of [1]", "it has bn2.bias"}, [] {
    nn::require_same_tensors({{"bn1.bias", {1}, {0}}, {"bn2.bias", {1}, {0}}}, {{"bn2.bias", {1}, {0}}},
                             "a.safetensors");
  });
}

}  // namespace
}  // namespace dptrain
