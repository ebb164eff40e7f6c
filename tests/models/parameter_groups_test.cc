// Which parameters a group covers, which of several groups takes precedence, and what is refused.
#include "models/parameter_groups.h"

#include <gtest/gtest.h>

#include <map>

#include "config/config_document.h"
#include "models/frozen.h"
#include "optim/flat_weights.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain::models {
namespace {

using ops::UpdateFactors;
using testing::expect_error;

const ModelInput kDigitInput = {.image = {1, 28, 28}, .classes = 10};

class ParameterGroups : public ::testing::Test {
 protected:
  std::unique_ptr<nn::Model> built(const std::vector<ParameterGroup>& groups,
                                   const std::vector<std::string>& frozen = {}) const {
    return with_parameter_groups(with_frozen(find_model("lenet"), frozen, "freeze"), groups)
        .build({.device = *device_}, kDigitInput);
  }
  static std::map<std::string, UpdateFactors> factors_of(nn::Model& model) {
    std::map<std::string, UpdateFactors> all;
    model.visit_parameters([&](const std::string& name, const Parameter& parameter, const nn::Initializer&) {
      all[name] = parameter.update_factors();
    });
    return all;
  }
  std::unique_ptr<Device> device_ = testing::test_device();
};

TEST_F(ParameterGroups, CoverNamesAndDimensionsAndTheLaterOnePrevails) {
  const auto model = built({{.dimensions = 1, .weight_decay = 0},
                            {.of = {"fc2", "conv1.weight"}, .learning_rate = 10},
                            {.of = {"fc2"}, .dimensions = 2, .learning_rate = 5, .weight_decay = 3}});
  const std::map<std::string, UpdateFactors> expected = {
      {"conv1.weight", {10, 1}}, {"conv1.bias", {1, 0}}, {"conv2.weight", {1, 1}}, {"conv2.bias", {1, 0}},
      {"fc1.weight", {1, 1}},    {"fc1.bias", {1, 0}},   {"fc2.weight", {5, 3}},   {"fc2.bias", {10, 0}}};
  EXPECT_EQ(factors_of(*model), expected);
}

/// Padding counts: 16 adjacent weights belong to one group. A model whose weights are all updated alike has no groups.
TEST_F(ParameterGroups, AreLaidOutAsTheWeightsAre) {
  const auto model = built({{.of = {"fc1"}, .learning_rate = 4}});
  model->place(*device_, {});
  const ops::UpdateGroups groups = optim::update_groups_of(optim::FlatWeights::of(*model));
  ASSERT_EQ(groups.count(), 2);
  ASSERT_EQ(groups.of_blocks.elements() * 16, model->weights().elements());
  const auto* factors = groups.factors.data<double>();
  for (const Parameter* parameter : model->parameters()) {
    const double expected = parameter->name().starts_with("fc1.") ? 4 : 1;
    const int64_t begin = model->offset(*parameter), end = begin + parameter->value().storage_elements();
    for (int64_t at = begin; at < end; ++at)
      ASSERT_EQ(factors[2 * groups.of_blocks.data<uint8_t>()[at / 16]], expected) << parameter->name() << " " << at;
  }
  const auto alike = built({{.of = {"fc1"}, .learning_rate = 1, .weight_decay = 1}});
  alike->place(*device_, {});
  EXPECT_FALSE(optim::update_groups_of(optim::FlatWeights::of(*alike)).defined());
}

TEST_F(ParameterGroups, RefuseWhatTheyCannotCover) {
  const auto refused = [&](const std::vector<ParameterGroup>& groups, std::initializer_list<std::string_view> sentences,
                           const std::vector<std::string>& frozen = {}) {
    expect_error(ExitCode::config, sentences, [&] { built(groups, frozen); });
  };
  refused({{.of = {"fc3"}, .learning_rate = 2, .where = "a.yaml:3:5: parameter_groups[0]"}},
          {"a.yaml:3:5: parameter_groups[0]: expected names of the model's parameters", "got 'fc3'",
           "did you mean 'fc1'?"});
  refused({{.dimensions = 3, .learning_rate = 2}}, {"expected a trained parameter with 3 dimensions, got none"});
  refused({{.of = {"fc2.bias"}, .dimensions = 2, .learning_rate = 2}}, {"with 2 dimensions"});
  std::string all = "{layers: [flatten";
  for (int layer = 0; layer < 70; ++layer) all += ", linear: 4";
  std::vector<ParameterGroup> each;
  for (int layer = 1; layer <= 64; ++layer)
    each.push_back({.of = {"fc" + std::to_string(layer)}, .learning_rate = 1 + layer, .where = "a.yaml:9"});
  const auto with_layers = [&](const std::vector<std::string>& frozen) {
    ModelSpec spec;
    const ConfigSession session(parse_config("model: " + all + ", linear: classes]}", "a.yaml"),
                                [&](ConfigReader& reader) { spec = read_model(reader); });
    with_parameter_groups(with_frozen(spec, frozen, "freeze"), each).build({.device = *device_}, kDigitInput);
  };
  expect_error(ExitCode::config, {"a.yaml:9: expected at most 64 different ways to update parameters, got 65"},
               [&] { with_layers({}); });
  // Frozen parameters aren't updated in any group.
  EXPECT_NO_THROW(with_layers({"fc65", "fc66", "fc67", "fc68", "fc69", "fc70", "fc71"}));
  refused({{.of = {"conv1"}, .learning_rate = 2}}, {"expected a trained parameter, got only frozen ones"}, {"conv1"});
}

std::vector<ParameterGroup> groups_of_text(const std::string& text) {
  std::vector<ParameterGroup> groups;
  const ConfigSession session(parse_config(text, "a.yaml"),
                              [&](ConfigReader& reader) { groups = read_parameter_groups(reader); });
  return groups;
}

TEST_F(ParameterGroups, AreReadFromAConfiguration) {
  const auto model =
      built(groups_of_text("parameter_groups:\n"
                           "  - {dimensions: 1, weight_decay_factor: 0}\n"
                           "  - {of: fc2, learning_rate_factor: 10}\n"));
  const auto factors = factors_of(*model);
  EXPECT_EQ(factors.at("fc1.bias"), (UpdateFactors{1, 0}));
  EXPECT_EQ(factors.at("fc2.weight"), (UpdateFactors{10, 1}));
  EXPECT_EQ(factors.at("fc2.bias"), (UpdateFactors{10, 0}));
  EXPECT_EQ(factors.at("conv1.weight"), UpdateFactors());
  EXPECT_TRUE(groups_of_text("{}").empty());
}

TEST_F(ParameterGroups, RefuseWhatSaysNothing) {
  const auto refused = [&](const std::string& group, std::initializer_list<std::string_view> sentences) {
    expect_error(ExitCode::config, sentences, [&] { groups_of_text("parameter_groups: [" + group + "]"); });
  };
  refused("{learning_rate_factor: 2}",
          {"a.yaml:1:20: parameter_groups[0].of: a group selects parameters, expected their names or a number of "
           "dimensions, got neither; write for instance of: [fc] or dimensions: 1"});
  refused("{of: [], dimensions: 1, learning_rate_factor: 2}",
          {"parameter_groups[0].of: expected names of parameters or modules, got none; write for instance of: [fc]"});
  refused("5", {"parameter_groups[0]: expected a list of mappings, got 5; write for instance parameter_groups: "
                "[{dimensions: 1, weight_decay_factor: 0}]"});
  refused("{of: fc1}", {"a group changes how its parameters are updated, expected a factor, got none"});
  // A wrong value is reported once, and not also as missing.
  const auto refused_once = [&](const std::string& group, std::string_view sentence) {
    try {
      groups_of_text("parameter_groups: [" + group + "]");
      ADD_FAILURE() << group;
    } catch (const Error& error) {
      EXPECT_EQ(error.lines().size(), 1u) << group;
      EXPECT_NE(error.lines().front().find(sentence), std::string::npos) << error.lines().front();
    }
  };
  refused_once("{of: fc1, learning_rate_factor: 0}", "learning_rate_factor: expected a number");
  refused_once("{of: fc1, weight_decay_factor: -1}", "weight_decay_factor: expected a number");
  refused_once("{dimensions: 5, weight_decay_factor: 0}", "dimensions: expected an integer");
  refused_once("{of: {fc: 1}, weight_decay_factor: 0}", "of: expected");
  refused_once("{off: fc1, weight_decay_factor: 0}", "'off': unknown key, did you mean 'of'?");
  refused_once("{of: fc1, learning_rate_facto: 2}", "learning_rate_facto: unknown key");
  refused("{of: fc1, weight_decay: 0, learning_rate_factor: 2}",
          {"parameter_groups[0].weight_decay: unknown key, did you mean 'weight_decay_factor'?"});
}

}  // namespace
}  // namespace dptrain::models
