#include "nn/named_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "ops/reorder.h"

namespace dptrain::nn {
namespace {

using ByName = std::unordered_map<std::string_view, const NamedValues*>;

ByName by_name(const std::vector<NamedValues>& values) {
  ByName map;
  for (const NamedValues& one : values) map.emplace(one.name, &one);
  return map;
}

/// A tensor of a model's state: a tensor at hand, or a trained parameter, which may have to be read.
struct NamedTensor {
  std::string name;
  Tensor tensor;
  const Parameter* trained = nullptr;
  std::string tied_to = {};  ///< as in NamedValues
};

NamedTensor named(const std::string& name, const Parameter& parameter) {
  if (parameter.is_frozen()) return {.name = name, .tensor = parameter.value()};
  return {.name = name, .tensor = {}, .trained = &parameter};
}

std::vector<NamedTensor> state_of(const Model& model) {
  std::vector<NamedTensor> state;
  for (const auto& own : {model.own_parameters(), model.own_frozen_parameters()})
    for (const Parameter* parameter : own) state.push_back(named(parameter->name(), *parameter));
  for (const RunningState* running : model.states()) state.push_back({.name = running->name, .tensor = running->value});
  for (const Model::TiedName& tied : model.tied_names()) {
    state.push_back(named(tied.name, *tied.parameter));
    state.back().tied_to = tied.parameter->name();
  }
  return state;
}

std::optional<NamedValues> plain_values(const NamedTensor& of, const ReadParameter& read = {}) {
  Tensor tensor = of.tensor;
  if (of.trained != nullptr) tensor = read ? read(*of.trained) : of.trained->value();
  if (!tensor.defined()) return std::nullopt;
  const Tensor plain = ops::reorder(tensor, Layout::plain, MemoryPurpose::workspace);
  return NamedValues{of.name, tensor.shape(), plain.values(), of.tied_to};
}

void load(const ByName& values, const std::string& name, const Tensor& to) {
  const auto found = values.find(name);
  DPTRAIN_CHECK(found != values.end() && found->second->shape == to.shape(), "no values of {} for {}", to.text(), name);
  ops::reorder_into(Tensor::from(to.device(), to.shape(), found->second->values, MemoryPurpose::workspace), to);
}

/// Loads values into the parameter's memory, or passes them to `write` as a tensor.
void load_parameter(const ByName& values, const Parameter& parameter, const std::string& prefix,
                    const WriteParameter& write, Device& device) {
  if (!write) return load(values, prefix + parameter.name(), parameter.value());
  write(parameter, [&] {
    const int64_t elements = storage_elements(parameter.shape(), parameter.layout());
    const Tensor flat = Tensor::zeros(device, {elements}, {.purpose = MemoryPurpose::workspace});
    load(values, prefix + parameter.name(), flat.window(0, parameter.shape(), parameter.layout()));
    return flat;
  });
}

Tensor window_of(const Model& model, const Parameter& parameter, const Tensor& flat) {
  return flat.window(model.offset(parameter), parameter.shape(), parameter.layout());
}

/// The advice for a tensor that is missing: a similar name among `strangers`, the tensors that the model doesn't have;
/// or else `advice` and the first few names, which show which model the state is of.
std::string advice_for_absent(const std::string& name, const std::vector<std::string>& names,
                              const std::vector<std::string>& strangers, const std::string& advice) {
  constexpr size_t kShown = 4;
  if (const std::string near = nearest_name(name, strangers); !near.empty())
    return fmt::format("did you mean '{}'?", near);
  const auto shown = std::span(names).first(std::min(kShown, names.size()));
  return fmt::format("{}; it has {}{}", advice,
                     names.empty() ? "no tensors" : fmt::format("{}", fmt::join(shown, ", ")),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

}  // namespace

std::vector<NamedValues> state_dict(const Model& model, const ReadParameter& read) {
  std::vector<NamedValues> state;
  for (const NamedTensor& tensor : state_of(model))
    if (auto values = plain_values(tensor, read)) state.push_back(std::move(*values));
  return state;
}

void for_each_state(const Model& model, const std::function<void(const NamedValues&)>& take,
                    const ReadParameter& read) {
  std::vector<NamedTensor> state = state_of(model);
  std::ranges::sort(state, {}, &NamedTensor::name);
  for (const NamedTensor& tensor : state)
    if (const auto values = plain_values(tensor, read)) take(*values);
}

void load_state_dict(Model& model, const std::vector<NamedValues>& state, const WriteParameter& write) {
  const ByName values = by_name(state);
  for (const Parameter* parameter : model.parameters()) load_parameter(values, *parameter, "", write, model.device());
  for (const Parameter* parameter : model.frozen_parameters()) load(values, parameter->name(), parameter->value());
  for (const RunningState* running : model.states()) load(values, running->name, running->value);
  model.refresh_copies();
  model.refresh_frozen_copies();
}

std::vector<NamedValues> values_by_parameter(const Model& model, const ReadParameter& read, const std::string& prefix) {
  std::vector<NamedValues> values;
  for (const Parameter* parameter : model.own_parameters()) {
    const NamedTensor one{.name = prefix + parameter->name(), .tensor = {}, .trained = parameter};
    if (auto found = plain_values(one, read)) values.push_back(std::move(*found));
  }
  return values;
}

void load_by_parameter(const Model& model, const WriteParameter& write, const std::vector<NamedValues>& values,
                       const std::string& prefix) {
  const ByName map = by_name(values);
  for (const Parameter* parameter : model.parameters()) load_parameter(map, *parameter, prefix, write, model.device());
}

std::vector<NamedValues> values_by_parameter(const Model& model, const Tensor& flat, const std::string& prefix) {
  return values_by_parameter(
      model, [&](const Parameter& parameter) { return window_of(model, parameter, flat); }, prefix);
}

void load_by_parameter(const Model& model, const Tensor& flat, const std::vector<NamedValues>& values,
                       const std::string& prefix) {
  const ByName map = by_name(values);
  for (const Parameter* parameter : model.parameters())
    load(map, prefix + parameter->name(), window_of(model, *parameter, flat));
}

std::vector<NamedValues> with_tied_names(const std::vector<NamedValues>& expected, std::vector<NamedValues> got,
                                         const std::string& where) {
  for (const NamedValues& tensor : expected) {
    if (tensor.tied_to.empty()) continue;
    const auto own = std::ranges::find(got, tensor.tied_to, &NamedValues::name);
    const auto further = std::ranges::find(got, tensor.name, &NamedValues::name);
    if (own != got.end() && further != got.end()) {
      if (own->shape == further->shape && own->values == further->values) continue;
      throw Error(ExitCode::bad_data,
                  Mistake{.where = fmt::format("{}: {}", where, tensor.name),
                          .expected = fmt::format("expected the same values as those of {}, which it is tied to",
                                                  tensor.tied_to),
                          .got = "different ones",
                          .advice = "leave one of them out"});
    }
    if (own == got.end() && further == got.end()) continue;
    NamedValues copy = own != got.end() ? *own : *further;
    copy.name = own != got.end() ? tensor.name : tensor.tied_to;
    got.push_back(std::move(copy));
  }
  return got;
}

void require_same_tensors(const std::vector<NamedValues>& expected, const std::vector<NamedValues>& got,
                          const std::string& where, const std::string& advice) {
  const auto refuse = [&](const std::string& name, const std::string& what, const std::string& found,
                          const std::string& what_to_do) {
    throw Error(
        ExitCode::bad_data,
        Mistake{.where = fmt::format("{}: {}", where, name), .expected = what, .got = found, .advice = what_to_do});
  };
  const ByName found = by_name(got), known = by_name(expected);
  std::vector<std::string> names, strangers;
  for (const NamedValues& tensor : got) {
    names.push_back(tensor.name);
    if (!known.contains(tensor.name)) strangers.push_back(tensor.name);
  }
  for (const NamedValues& tensor : expected) {
    const auto one = found.find(tensor.name);
    if (one == found.end())
      refuse(tensor.name, fmt::format("expected a tensor of {}", tensor.shape.text()), "none of that name",
             advice_for_absent(tensor.name, names, strangers, advice));
    if (one->second->shape != tensor.shape)
      refuse(tensor.name, fmt::format("expected {}", tensor.shape.text()), one->second->shape.text(), advice);
  }
  for (const NamedValues& tensor : got)
    if (!known.contains(tensor.name))
      refuse(tensor.name, "expected only the tensors of this model and optimizer", "an additional one", advice);
}

}  // namespace dptrain::nn
