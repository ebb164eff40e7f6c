#include "parallel/value_operands.h"

#include <algorithm>

#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

ValueOperands::ValueOperands(nn::Model& model, Communicator& communicator, const std::vector<WeightUnit>& units)
    : model_(model), communicator_(communicator), pieces_(static_cast<size_t>(communicator.size())) {
  int64_t elements = 0;
  for (size_t u = 0; u < units.size(); ++u)
    for (int p = units[u].run.first_parameter; p < units[u].run.end_parameter; ++p) {
      Parameter& parameter = *model.parameters()[static_cast<size_t>(p)];
      if (!parameter.is_read_as_value()) continue;
      const int64_t first = model.offset(parameter), last = model.end_offset(parameter);
      for (int rank = 0; rank < communicator.size(); ++rank) {
        const OwnedRange owned = units[u].owned_by(rank);
        const int64_t begin = std::max(first, owned.begin), end = std::min(last, owned.end);
        if (begin >= end) continue;
        pieces_[static_cast<size_t>(rank)].push_back({.in_own = units[u].own_begin + begin - owned.begin,
                                                      .in_values = elements + begin - first,
                                                      .elements = end - begin});
      }
      places_.push_back({.parameter = &parameter, .unit = static_cast<int>(u), .begin = elements});
      elements += last - first;
    }
  if (elements == 0) return;
  values_ = Tensor::zeros(model.device(), {elements}, {.purpose = MemoryPurpose::weights});
  for (const auto& of_rank : pieces_) {
    int64_t sum = 0;
    for (const Piece& piece : of_rank) sum += piece.elements;
    most_ = std::max(most_, sum);
  }
}

void ValueOperands::share(const Tensor& own) {
  if (!values_.defined()) return;
  const auto window = [](const Tensor& flat, int64_t begin, const Piece& piece) {
    return flat.window(begin, {piece.elements}, Layout::plain);
  };
  const auto& own_pieces = pieces_[static_cast<size_t>(communicator_.rank())];
  if (communicator_.size() == 1) {
    for (const Piece& piece : own_pieces)
      window(values_, piece.in_values, piece).copy_from(window(own, piece.in_own, piece));
    return;
  }
  // Ranks own different numbers of elements, but an all-gather needs equal parts.
  const TensorOptions workspace{.purpose = MemoryPurpose::workspace};
  const Tensor packed = Tensor::zeros(model_.device(), {most_}, workspace);
  const Tensor all = Tensor::empty(model_.device(), {most_ * communicator_.size()}, workspace);
  int64_t at = 0;
  for (const Piece& piece : own_pieces) {
    window(packed, at, piece).copy_from(window(own, piece.in_own, piece));
    at += piece.elements;
  }
  communicator_.all_gather(comm_buffer(packed), comm_buffer(all));
  for (size_t rank = 0; rank < pieces_.size(); ++rank) {
    at = static_cast<int64_t>(rank) * most_;
    for (const Piece& piece : pieces_[rank]) {
      window(values_, piece.in_values, piece).copy_from(window(all, at, piece));
      at += piece.elements;
    }
  }
}

void ValueOperands::bind(int unit) {
  for (const auto& [parameter, of_unit, begin] : places_)
    if (of_unit == unit) parameter->bind(values_.window(begin, parameter->shape(), parameter->layout()));
}

}  // namespace dptrain::parallel
