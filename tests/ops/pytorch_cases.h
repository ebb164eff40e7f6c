#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/source_tree.h"

namespace dptrain::testing {

/// A case of pytorch_values.json on one device.
struct PyTorchCase {
  DeviceRow row;
  nlohmann::json values;

  Shape shape(const char* key) const { return Shape(values.at(key).get<std::vector<int64_t>>()); }
};

inline std::ostream& operator<<(std::ostream& out, const PyTorchCase& c) {
  return out << c.row.name << "_" << c.values.at("name").get<std::string>();
}

/// Every case of an operator on every device.
inline std::vector<PyTorchCase> pytorch_cases(const char* op) {
  // Read only once: every start of the program asks for the cases of all operators.
  static const nlohmann::json all = [] {
    std::ifstream file(source_file("tests/ops/pytorch_values.json"));
    return nlohmann::json::parse(file);
  }();
  std::vector<PyTorchCase> cases;
  for (const DeviceRow& row : device_rows())
    for (const auto& values : all.at(op)) cases.push_back({row, values});
  return cases;
}

/// The numbers of the tensors in pytorch_values.py.
enum PyTorchTensor : uint64_t {
  kX,
  kWeight,
  kBias,
  kOutputGradient,
  kResidual,
  kRunningMean,
  kRunningVariance,
  kLabels
};

/// Compares with a stored result: element by element, or by norm, first elements and products with four fixed vectors.
/// Rounding errors of single elements add up along a product as they do in the norm.
inline void expect_pytorch(const nlohmann::json& expected, const Tensor& tensor, double tolerance) {
  const std::vector<float> got = values_of(tensor);
  double square = 0;
  for (const float value : got) square += double{value} * value;
  if (expected.contains("values")) {
    const auto values = expected["values"].get<std::vector<double>>();
    ASSERT_EQ(got.size(), values.size());
    double norm = 0;
    for (const double value : values) norm += value * value;
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], values[i], tolerance * std::sqrt(norm) + 1e-6) << "element " << i;
    return;
  }
  const double norm = expected["norm"], bound = tolerance * norm + 1e-6;
  EXPECT_NEAR(std::sqrt(square), norm, bound);
  for (size_t i = 0; i < expected["first"].size(); ++i)
    EXPECT_NEAR(got[i], expected["first"][i].get<double>(), bound) << "element " << i;
  for (size_t k = 0; k < expected["dots"].size(); ++k) {
    double dot = 0;
    for (size_t i = 0; i < got.size(); ++i) dot += got[i] * formula_uniform(9, k, i);
    EXPECT_NEAR(dot, expected["dots"][k].get<double>(), bound) << "product " << k;
  }
}

/// Names a test after its case.
struct CaseName {
  template <class Info>
  std::string operator()(const Info& info) const {
    std::ostringstream name;
    name << info.param;
    return name.str();
  }
};

}  // namespace dptrain::testing
