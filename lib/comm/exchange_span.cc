#include "comm/exchange_span.h"

#include <fmt/format.h>

namespace dptrain {

TimelineSpan exchange_span(const CommCall& call, const std::string& other) {
  const CommBuffer& payload = call.payload();
  TimelineSpan span{.name = std::string(comm_kind_name(call.kind)), .begin = {}, .end = {}, .bytes = payload.bytes()};
  if (payload.elements > 0) span.operands = fmt::format("{}[{}]", dtype_name(payload.dtype), payload.elements);
  const std::string name = other.empty() ? fmt::format("rank {}", call.other) : other;
  if (call.kind == CommKind::send) span.name += " to " + name;
  if (call.kind == CommKind::receive) span.name += " from " + name;
  return span;
}

int64_t begin_exchange(Device& device, const CommCall& call) {
  Timeline* const timeline = device.communication_timeline();
  if (timeline == nullptr || !timeline->is_wanted()) return Timeline::kNone;
  return timeline->begin(exchange_span(call));
}

}  // namespace dptrain
