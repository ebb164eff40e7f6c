// How a model's weights are cut into units and sharded over ranks.
#include "parallel/weight_units.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model_registry.h"
#include "parallel/digits.h"
#include "parallel/small_bert.h"
#include "support/test_device.h"

namespace dptrain::parallel {
namespace weight_units_test {

std::unique_ptr<nn::Model> placed(Device& device, const models::ModelSpec& spec, const models::ModelInput& input) {
  auto model = spec.build({.device = device}, input);
  model->place(device, {});
  return model;
}

std::unique_ptr<nn::Model> image_model(Device& device, const char* name) {
  return placed(device, models::find_model(name), {.image = {1, 28, 28}, .classes = 10});
}

std::vector<int64_t> elements_of(const std::vector<WeightUnit>& units) {
  std::vector<int64_t> elements;
  for (const WeightUnit& unit : units) elements.push_back(unit.run.end - unit.run.begin);
  return elements;
}

class WeightUnits : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(WeightUnits, HaveEveryParameterOnceInOrderAndCutNoStage) {
  for (const char* name : {"lenet", "resnet18"}) {
    const auto model = image_model(*device_, name);
    for (const double mb : {0.0, 1e-6, 0.1, 1.0, 1e6}) {
      SCOPED_TRACE(::testing::Message() << name << " in units of " << mb << " MiB");
      int parameter = 0;
      int64_t element = 0, own = 0;
      for (const WeightUnit& unit : plan_weight_units(*model, {.unit_mb = mb, .ranks = 3})) {
        EXPECT_EQ(unit.run.first_parameter, parameter);
        EXPECT_EQ(unit.run.begin, element);
        EXPECT_EQ(unit.own_begin, own);
        EXPECT_FALSE(unit.is_tied);
        bool ends_a_stage = false;
        for (int stage = 0; stage < model->stage_count(); ++stage)
          ends_a_stage |= model->parameters_of_stage(stage).second == unit.run.end_parameter;
        EXPECT_TRUE(ends_a_stage) << unit.run.end_parameter;
        parameter = unit.run.end_parameter;
        element = unit.run.end;
        own += unit.part;
      }
      EXPECT_EQ(parameter, std::ssize(model->parameters()));
      EXPECT_EQ(element, model->elements());
    }
  }
}

TEST_F(WeightUnits, OfLeNetAreAsLargeAsAskedFor) {
  const auto model = image_model(*device_, "lenet");
  const auto units_of = [&](double mb) { return plan_weight_units(*model, {.unit_mb = mb}).size(); };
  EXPECT_EQ(units_of(1e-6), 3u);
  EXPECT_EQ(units_of(0.1), 2u) << "both convolutions together";
  EXPECT_EQ(units_of(1), 1u);
  EXPECT_EQ(units_of(0), 3u) << "conv2 alone is more than a sixteenth";
}

TEST_F(WeightUnits, AreDealtOutInEqualPartsOfCacheLines) {
  const auto model = image_model(*device_, "lenet");
  for (int ranks = 1; ranks <= 8; ++ranks) {
    SCOPED_TRACE(ranks);
    const auto units = plan_weight_units(*model, {.unit_mb = 1e-6, .ranks = ranks});
    int64_t parts = 0;
    for (const WeightUnit& unit : units) {
      int64_t end = unit.run.begin;
      for (int rank = 0; rank < ranks; ++rank) {
        const OwnedRange range = unit.owned_by(rank);
        EXPECT_EQ(range.owner, rank);
        EXPECT_EQ(range.begin, end);
        EXPECT_EQ(range.begin % 16, 0);
        EXPECT_LE(range.elements(), unit.part);
        end = range.end;
      }
      EXPECT_EQ(end, unit.run.end);
      EXPECT_LT(unit.part * ranks - (unit.run.end - unit.run.begin), 16 * ranks);
      parts += unit.part;
    }
    EXPECT_EQ(own_elements(units), parts);
  }
}

/// A unit of fewer cache lines than ranks leaves some ranks nothing.
TEST_F(WeightUnits, APartMayBePaddingAlone) {
  WeightUnit unit{.run = {.begin = 32, .end = 64}, .part = 16};
  EXPECT_EQ(unit.owned_by(1).begin, 48);
  EXPECT_EQ(unit.owned_by(1).elements(), 16);
  EXPECT_EQ(unit.owned_by(2).elements(), 0);
}

TEST_F(WeightUnits, WhatAnotherStageUsesTooIsAUnitOfItsOwn) {
  const auto model = placed(*device_, small_bert(2, 0), {.classes = 2, .text = kText});
  const auto units = plan_weight_units(*model, {.unit_mb = 1e6});
  ASSERT_EQ(units.size(), 2u) << ::testing::PrintToString(elements_of(units));
  EXPECT_TRUE(units[0].is_tied);
  EXPECT_FALSE(units[1].is_tied);
}

}  // namespace weight_units_test
}  // namespace dptrain::parallel
