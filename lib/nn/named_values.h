#pragma once

#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::nn {

/// A tensor as checkpoints, hashes and tests see it: by name, in plain order, on the host.
struct NamedValues {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

/// Every parameter and running state of the model, in the order of registration.
std::vector<NamedValues> state_dict(const Model& model);
/// Gives a placed model the state that `state_dict` took of one like it, in any order.
void load_state_dict(Model& model, const std::vector<NamedValues>& state);

/// A flat tensor that lies as the model's weights do, cut into its parameters: "<prefix><parameter's name>".
std::vector<NamedValues> values_by_parameter(const Model& model, const Tensor& flat, const std::string& prefix = {});
/// The way back.
void load_by_parameter(const Model& model, const Tensor& flat, const std::vector<NamedValues>& values,
                       const std::string& prefix = {});

/// Throws 65, naming `where`, the tensor and what was expected, unless `got` has the names and shapes of `expected` and
/// no others. Their order doesn't matter.
void require_same_tensors(const std::vector<NamedValues>& expected, const std::vector<NamedValues>& got,
                          const std::string& where);

}  // namespace dptrain::nn
