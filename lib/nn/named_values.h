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
  /// A parameter has this further name; `tied_to` is its own.
  std::string tied_to = {};
};

/// What a trained parameter's values, or others that lie as they do, are read from where the model doesn't have them as
/// a whole: a tensor as the parameter lies, or an undefined one, which leaves it out.
using ReadParameter = std::function<Tensor(const Parameter&)>;
/// The way back: `values` gives all that such a tensor has in memory, as a plain one, to whoever asks for it.
using WriteParameter = std::function<void(const Parameter&, const std::function<Tensor()>& values)>;

/// Every parameter of the model in the order of registration, trained ones before frozen ones, and its running states;
/// then tied parameters under their further names. Of a part of a model those that are its own. `read`: by default what
/// they are bound to.
std::vector<NamedValues> state_dict(const Model& model, const ReadParameter& read = {});
/// The same tensor by tensor in the order of their names, one of them in memory at a time.
void for_each_state(const Model& model, const std::function<void(const NamedValues&)>& take,
                    const ReadParameter& read = {});
/// Gives a placed model the state that `state_dict` took of one like it, in any order, or a part its share of that.
void load_state_dict(Model& model, const std::vector<NamedValues>& state, const WriteParameter& write = {});

/// A flat tensor that lies as the model's trained weights do, cut into its own parameters: "<prefix><parameter's
/// name>".
std::vector<NamedValues> values_by_parameter(const Model& model, const Tensor& flat, const std::string& prefix = {});
/// The way back.
void load_by_parameter(const Model& model, const Tensor& flat, const std::vector<NamedValues>& values,
                       const std::string& prefix = {});
// The same, read and written parameter by parameter:
std::vector<NamedValues> values_by_parameter(const Model& model, const ReadParameter& read,
                                             const std::string& prefix = {});
void load_by_parameter(const Model& model, const WriteParameter& write, const std::vector<NamedValues>& values,
                       const std::string& prefix = {});

/// `got` with what is absent of the tied names of `expected`: a tied parameter may stand under either of its names.
/// Throws 65, naming `where` and both names, where they have different values.
std::vector<NamedValues> with_tied_names(const std::vector<NamedValues>& expected, std::vector<NamedValues> got,
                                         const std::string& where);

/// Throws 65, naming `where`, the tensor, what was expected and what to do, unless `got` has the names and shapes of
/// `expected` and no others. Their order doesn't matter.
void require_same_tensors(const std::vector<NamedValues>& expected, const std::vector<NamedValues>& got,
                          const std::string& where,
                          const std::string& advice = "use the model and options that it was made with");

}  // namespace dptrain::nn
