#include "parallel/joined_state.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "nn/tensor_forms.h"
#include "parallel/text_buffer.h"

namespace dptrain::parallel {
namespace {

using Values = std::vector<nn::NamedValues>;

/// Moves elements [begin, end) of `from`, as far as they exist.
void move_into(Values& to, Values& from, size_t begin, size_t end) {
  const auto at = [&](size_t i) { return from.begin() + static_cast<std::ptrdiff_t>(std::min(i, from.size())); };
  std::move(at(begin), at(end), std::back_inserter(to));
}

/// What is sent of a part before its tensors.
struct Header {
  int64_t parameters = 0;
  int64_t frozen = 0;
  int64_t states = 0;
  std::array<int64_t, 3> forms_bytes{};  ///< text sizes of the forms of the model, the optimizer and the average
  int64_t has_loss_scale = 0;
  optim::LossScaleNumbers loss_scale = {};
};

CommBuffer bytes_of(Header& header) { return {.data = &header, .elements = sizeof(Header), .dtype = DType::u8}; }

std::array<Values*, 3> lists_of(TrainingState& state) { return {&state.model, &state.optimizer, &state.average}; }

}  // namespace

std::vector<PartState> state_by_range(const nn::Model& model, TrainingState state) {
  const size_t own = model.own_parameters().size(), frozen = model.own_frozen_parameters().size();
  const size_t states = model.states().size(), kinds = own > 0 ? state.optimizer.size() / own : 0;
  std::vector<PartState> ranges;
  nn::Model::Held begin;
  for (const nn::Model::Held& held : model.held_by_range()) {
    PartState& range = ranges.emplace_back();
    range.parameters = held.parameters;
    range.frozen = held.frozen;
    range.states = held.states;
    range.state.loss_scale = state.loss_scale;
    const auto take = [](Values& to, Values& from, size_t at, size_t count) { move_into(to, from, at, at + count); };
    take(range.state.model, state.model, begin.parameters, held.parameters);
    take(range.state.model, state.model, own + begin.frozen, held.frozen);
    take(range.state.model, state.model, own + frozen + begin.states, held.states);
    take(range.state.model, state.model, own + frozen + states + begin.tied_names, held.tied_names);
    take(range.state.average, state.average, begin.parameters, held.parameters);
    for (size_t kind = 0; kind < kinds; ++kind)
      take(range.state.optimizer, state.optimizer, kind * own + begin.parameters, held.parameters);
    begin = begin + held;
  }
  return ranges;
}

TrainingState joined_state(std::vector<PartState> parts) {
  TrainingState whole{.model = {}, .optimizer = {}, .average = {}, .loss_scale = parts.front().state.loss_scale};
  // A model's state lists trained parameters, frozen parameters, running statistics, then tied parameters under their
  // further names.
  size_t kinds = 0;
  for (auto& [state, own, frozen, states] : parts) {
    move_into(whole.model, state.model, 0, own);
    move_into(whole.average, state.average, 0, own);
    if (own > 0) kinds = std::max(kinds, state.optimizer.size() / own);
  }
  for (auto& [state, own, frozen, states] : parts) move_into(whole.model, state.model, own, own + frozen);
  for (auto& [state, own, frozen, states] : parts)
    move_into(whole.model, state.model, own + frozen, own + frozen + states);
  for (auto& [state, own, frozen, states] : parts)
    move_into(whole.model, state.model, own + frozen + states, state.model.size());
  // An optimizer's state lists one kind of value after the other, each for all parameters.
  for (size_t kind = 0; kind < kinds; ++kind)
    for (auto& [state, own, frozen, states] : parts)
      move_into(whole.optimizer, state.optimizer, kind * own, (kind + 1) * own);
  return whole;
}

void send_part_state(Communicator& communicator, PartState& part, int to) {
  Header header{.parameters = static_cast<int64_t>(part.parameters),
                .frozen = static_cast<int64_t>(part.frozen),
                .states = static_cast<int64_t>(part.states),
                .has_loss_scale = part.state.loss_scale.has_value(),
                .loss_scale = part.state.loss_scale.value_or(optim::LossScaleNumbers())};
  std::array<std::string, 3> forms;
  const auto lists = lists_of(part.state);
  for (size_t i = 0; i < lists.size(); ++i) {
    forms[i] = nn::forms_text(*lists[i]);
    header.forms_bytes[i] = static_cast<int64_t>(forms[i].size());
  }
  communicator.send(bytes_of(header), to);
  for (std::string& text : forms) communicator.send(text_buffer(text), to);
  for (Values* list : lists)
    for (nn::NamedValues& tensor : *list) communicator.send(buffer_of(tensor.values), to);
}

PartState receive_part_state(Communicator& communicator, int from) {
  Header header;
  communicator.receive(bytes_of(header), from);
  PartState part{.state = {},
                 .parameters = static_cast<size_t>(header.parameters),
                 .frozen = static_cast<size_t>(header.frozen),
                 .states = static_cast<size_t>(header.states)};
  if (header.has_loss_scale != 0) part.state.loss_scale = header.loss_scale;
  const auto lists = lists_of(part.state);
  for (size_t i = 0; i < lists.size(); ++i) {
    std::string forms(static_cast<size_t>(header.forms_bytes[i]), '\0');
    communicator.receive(text_buffer(forms), from);
    *lists[i] = nn::tensors_of_forms(forms);
  }
  for (Values* list : lists)
    for (nn::NamedValues& tensor : *list) {
      tensor.values.resize(static_cast<size_t>(tensor.shape.elements()));
      communicator.receive(buffer_of(tensor.values), from);
    }
  return part;
}

}  // namespace dptrain::parallel
