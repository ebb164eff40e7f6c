#include "parallel/dealt_out_values.h"

#include <algorithm>

#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

std::vector<DealtOutValues::Part> DealtOutValues::parts_of(const Parameter& parameter) const {
  const int64_t first = model_.offset(parameter), last = model_.end_offset(parameter);
  std::vector<Part> parts;
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const int64_t begin = std::max(first, ranges_[i].begin), end = std::min(last, ranges_[i].end);
    if (begin < end) parts.push_back({.range = i, .begin = begin, .end = end});
  }
  return parts;
}

Tensor DealtOutValues::own_part(const Part& part, const OwnValues& own) const {
  return own(part.range).window(part.begin - ranges_[part.range].begin, {part.end - part.begin}, Layout::plain);
}

Tensor DealtOutValues::gather(const Parameter& parameter, const OwnValues& own) const {
  const int64_t first = model_.offset(parameter);
  const bool gathers = communicator_.rank() == 0;
  Tensor whole;
  if (gathers)
    whole =
        Tensor::empty(model_.device(), {model_.end_offset(parameter) - first}, {.purpose = MemoryPurpose::workspace});
  for (const Part& part : parts_of(parameter)) {
    const int owner = ranges_[part.range].owner;
    const auto place = [&] { return whole.window(part.begin - first, {part.end - part.begin}, Layout::plain); };
    if (gathers && owner == 0)
      place().copy_from(own_part(part, own));
    else if (gathers)
      communicator_.receive(comm_buffer(place()), owner);
    else if (owner == communicator_.rank())
      communicator_.send(comm_buffer(own_part(part, own)), 0);
  }
  return gathers ? whole.window(0, parameter.shape(), parameter.layout()) : Tensor();
}

void DealtOutValues::take(const Parameter& parameter, const std::function<Tensor()>& values,
                          const OwnValues& own) const {
  const int64_t first = model_.offset(parameter);
  Tensor flat;
  for (const Part& part : parts_of(parameter)) {
    if (ranges_[part.range].owner != communicator_.rank()) continue;
    if (!flat.defined()) flat = values();
    // Padding after a parameter isn't part of its values.
    const Part there{.range = part.range, .begin = part.begin, .end = std::min(part.end, first + flat.elements())};
    if (there.begin >= there.end) continue;
    own_part(there, own).copy_from(flat.window(there.begin - first, {there.end - there.begin}, Layout::plain));
  }
}

}  // namespace dptrain::parallel
