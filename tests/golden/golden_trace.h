#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/config_document.h"
#include "models/frozen.h"
#include "models/parameter_groups.h"
#include "nn/model.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "support/formula_values.h"
#include "support/source_tree.h"

namespace dptrain {

using nlohmann::json;

/// A trace that golden.py wrote.
inline json read_golden(const std::string& name) {
  std::ifstream stream(testing::source_file("tests/golden/values/") + name + ".json");
  return json::parse(stream);
}

/// The model that a trace was made with: with its frozen parameters and its parameter groups.
inline models::ModelSpec as_traced(models::ModelSpec spec, const json& golden) {
  std::vector<models::ParameterGroup> groups;
  const json config = {{"parameter_groups", golden.value("groups", json::array())}};
  const ConfigSession session(parse_config(config.dump(), "golden"),
                              [&](ConfigReader& reader) { groups = models::read_parameter_groups(reader); });
  return models::with_parameter_groups(
      models::with_frozen(std::move(spec), golden.value("freeze", std::vector<std::string>()), "golden"), groups);
}

/// How far float32 results may be from the double-precision trace.
struct Bounds {
  double loss = 1e-5;    ///< relative
  double tensor = 1e-4;  ///< relative to the tensor's norm
};

constexpr Bounds kStrict;

/// The optimizers of golden.py, and their learning rates.
struct GoldenOptimizer {
  std::unique_ptr<optim::Optimizer> optimizer;
  double learning_rate = 0.01;
};

inline GoldenOptimizer optimizer_of(const std::string& name, const nn::Model& model) {
  const auto flat = optim::FlatWeights::of(model);
  if (name == "adam") return {std::make_unique<optim::Adam>(flat, optim::AdamSettings{}), 1e-4};
  if (name == "adamw")
    return {std::make_unique<optim::Adam>(flat, optim::AdamSettings{.weight_decay = 0.01, .decoupled = true}), 1e-4};
  if (name == "lars")
    return {std::make_unique<optim::Lars>(flat, optim::LarsSettings{.weight_decay = 5e-4, .trust_coefficient = 0.01}),
            1};
  if (name == "lamb") return {std::make_unique<optim::Lamb>(flat, optim::LambSettings{})};
  optim::SgdSettings settings;
  if (name != "sgd") settings = {.momentum = 0.9, .weight_decay = 5e-4, .nesterov = name == "nesterov"};
  return {std::make_unique<optim::Sgd>(flat, settings)};
}

/// Compares a tensor with its golden norm, first elements and products with eight fixed vectors. `bound` is relative to
/// the tensor's norm; `noise` is the rounding error of values that are zero in exact arithmetic.
inline void expect_tensor(const json& golden, const std::vector<float>& values, double bound, double noise) {
  const double norm = golden["norm"];
  const double tolerance = bound * norm + noise;
  double square = 0;
  for (const float value : values) square += double{value} * value;
  EXPECT_NEAR(std::sqrt(square), norm, tolerance);
  for (size_t i = 0; i < golden["first"].size(); ++i)
    EXPECT_NEAR(values[i], golden["first"][i].get<double>(), tolerance);
  for (size_t k = 0; k < golden["dots"].size(); ++k) {
    double dot = 0;
    for (size_t i = 0; i < values.size(); ++i) dot += values[i] * testing::formula_uniform(7, k, i);
    // A tensor that is zero in exact arithmetic holds only noise, which adds up along the product.
    const double along = norm < 10 * noise ? noise * std::sqrt(static_cast<double>(values.size())) : 0;
    EXPECT_NEAR(dot, golden["dots"][k].get<double>(), tolerance + along) << "product " << k;
  }
}

/// Compares how far the steps have moved a parameter from its initial values. The values themselves would hide what an
/// optimizer does, since nearly all of a weight is its initial value. `bound` is relative to the norm of the movement.
inline void expect_movement(const json& golden, const std::vector<double>& initial, const std::vector<float>& values,
                            double bound) {
  std::vector<double> moved(values.size());
  double square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    // Rounding the initial value to float32 doesn't count as movement.
    moved[i] = double{values[i]} - static_cast<float>(initial[i]);
    square += moved[i] * moved[i];
  }
  const double tolerance = bound * std::sqrt(square);
  for (size_t k = 0; k < golden["dots"].size(); ++k) {
    double dot = 0, from = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double along = testing::formula_uniform(7, k, i);
      dot += moved[i] * along;
      from += initial[i] * along;
    }
    const double expected = golden["dots"][k].get<double>() - from;
    EXPECT_NEAR(dot, expected, tolerance) << "movement along " << k;
  }
}

inline std::vector<float> as_float(const std::vector<double>& values) { return {values.begin(), values.end()}; }

inline double norm_of_all(const json& tensors) {
  double square = 0;
  for (const auto& tensor : tensors) square += std::pow(tensor["norm"].get<double>(), 2);
  return std::sqrt(square);
}

}  // namespace dptrain
