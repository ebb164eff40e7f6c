#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nn/model.h"

namespace dptrain::nn {

/// A tensor as checkpoints, hashes and tests see it: by name, in plain order, on the host.
struct NamedValues {
  std::string name;
  Shape shape;
  std::vector<float> values;
  /// The own name of the parameter that this entry is a further name of; empty for a parameter's own name.
  std::string tied_to = {};
};

/// Reads the values of a trained parameter, or other values in its layout, that the model doesn't hold as a whole.
/// Returns a tensor in the parameter's layout; an undefined tensor leaves the parameter out.
using ReadParameter = std::function<Tensor(const Parameter&)>;
/// Writes the values of a trained parameter. Calling `values` returns all that such a tensor has in memory, padding
/// included, as a plain tensor.
using WriteParameter = std::function<void(const Parameter&, const std::function<Tensor()>& values)>;

/// Every parameter of the model in the order of registration, trained ones before frozen ones; then its running states;
/// then tied parameters under their further names. For a part of a model, only its own tensors. `read`: by default the
/// values that the parameters are bound to.
std::vector<NamedValues> state_dict(const Model& model, const ReadParameter& read = {});
/// Calls `take` with each tensor of the state, in the order of names. Only one of them is in memory at a time.
void for_each_state(const Model& model, const std::function<void(const NamedValues&)>& take,
                    const ReadParameter& read = {});
/// Gives a placed model the state that `state_dict` took of a model like it, in any order. A part of a model takes its
/// share.
void load_state_dict(Model& model, const std::vector<NamedValues>& state, const WriteParameter& write = {});

/// Cuts a flat tensor with the order of the model's trained weights into its own parameters, named
/// "<prefix><parameter's name>".
std::vector<NamedValues> values_by_parameter(const Model& model, const Tensor& flat, const std::string& prefix = {});
/// Fills a flat tensor from such values.
void load_by_parameter(const Model& model, const Tensor& flat, const std::vector<NamedValues>& values,
                       const std::string& prefix = {});
// These two read and write parameter by parameter.
std::vector<NamedValues> values_by_parameter(const Model& model, const ReadParameter& read,
                                             const std::string& prefix = {});
void load_by_parameter(const Model& model, const WriteParameter& write, const std::vector<NamedValues>& values,
                       const std::string& prefix = {});

/// Adds to `got` the tied names of `expected` that it lacks: a tied parameter may be given under either of its names.
/// Throws 65, naming `where` and both names, if both are given with different values.
std::vector<NamedValues> with_tied_names(const std::vector<NamedValues>& expected, std::vector<NamedValues> got,
                                         const std::string& where);

/// Throws 65 unless `got` has exactly the names and shapes of `expected`, in any order. The error names `where`, the
/// tensor, what was expected and what to do.
void require_same_tensors(const std::vector<NamedValues>& expected, const std::vector<NamedValues>& got,
                          const std::string& where,
                          const std::string& advice = "use the model and options that it was made with");

}  // namespace dptrain::nn
