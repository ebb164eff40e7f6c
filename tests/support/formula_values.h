#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/model.h"
#include "ops/reorder.h"

namespace dptrain::testing {

// The weights and data of the golden files, by the formulas in tests/golden/golden.py.

inline uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline uint64_t formula_word(uint64_t seed, uint64_t tensor, uint64_t i) {
  return splitmix64((seed << 56) ^ (tensor << 32) ^ i);
}

/// u(seed, tensor, i) in [-1, 1).
inline double formula_uniform(uint64_t seed, uint64_t tensor, uint64_t i) {
  return static_cast<double>(formula_word(seed, tensor, i) >> 40) / 0x1.0p23 - 1;
}

inline std::vector<float> formula_images(uint64_t seed, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(formula_uniform(seed, 1000, i));
  return values;
}

inline std::vector<int32_t> formula_labels(uint64_t seed, int64_t count, uint64_t classes) {
  std::vector<int32_t> labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(formula_word(seed, 1001, i) % classes);
  return labels;
}

/// The initial values of a golden file's parameter, in double precision. `number` counts parameters in the order of
/// registration.
inline std::vector<double> formula_weights(const Parameter& parameter, uint64_t number, uint64_t seed) {
  const Shape& shape = parameter.shape();
  const bool matrix = shape.rank() > 1;
  double bound = matrix ? std::sqrt(3.0 / static_cast<double>(shape.elements() / shape[0])) : 0.1;
  if (parameter.name().ends_with("embeddings.weight")) bound = 0.02;
  const double centre = !matrix && parameter.name().ends_with("weight") ? 1 : 0;
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = centre + bound * formula_uniform(seed, number, i);
  return values;
}

/// Fills a model's parameters with their initial values, and returns these by name.
inline std::map<std::string, std::vector<double>> fill_by_formula(nn::Model& model, uint64_t seed) {
  std::map<std::string, std::vector<double>> all;
  model.visit_parameters([&](const std::string& name, const Parameter& parameter, const nn::Initializer&) {
    const std::vector<double> exact = formula_weights(parameter, all.size(), seed);
    const std::vector<float> values(exact.begin(), exact.end());
    ops::reorder_into(Tensor::from(model.device(), parameter.shape(), values), parameter.value());
    all.emplace(name, exact);
  });
  return all;
}

}  // namespace dptrain::testing
