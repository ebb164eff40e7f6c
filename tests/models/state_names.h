#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nn/named_values.h"
#include "support/source_tree.h"

namespace dptrain::testing {

/// Expects a model's state to have the names, shapes and order that state_names.json lists for PyTorch's model `name`.
inline void expect_state_names(const nn::Model& model, const std::string& name) {
  std::ifstream file(source_file("tests/models/state_names.json"));
  // ordered_json, because the order in the file matters.
  const auto expected = nlohmann::ordered_json::parse(file).at(name);
  EXPECT_EQ(model.parameter_elements(), expected["parameters"].get<int64_t>());
  const auto state = nn::state_dict(model);
  ASSERT_EQ(state.size(), expected["tensors"].size());
  auto known = expected["tensors"].begin();
  for (const auto& tensor : state) {
    EXPECT_EQ(tensor.name, known.key());
    EXPECT_EQ(tensor.shape, Shape(known.value().get<std::vector<int64_t>>())) << tensor.name;
    EXPECT_EQ(static_cast<int64_t>(tensor.values.size()), tensor.shape.elements());
    ++known;
  }
}

}  // namespace dptrain::testing
