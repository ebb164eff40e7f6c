#include "comm/comm_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>

#include "base/check.h"

namespace dptrain {
namespace {

bool sums(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::reduce || kind == CommKind::reduce_scatter;
}

bool has_root(CommKind kind) {
  return kind == CommKind::reduce || kind == CommKind::broadcast || kind == CommKind::gather ||
         kind == CommKind::scatter;
}

bool is_message(CommKind kind) { return kind == CommKind::send || kind == CommKind::receive; }

/// Whether parts may differ in size from rank to rank.
bool is_uneven(CommKind kind) { return kind == CommKind::gather || kind == CommKind::scatter; }

void* at(const CommBuffer& buffer, int64_t element) {
  return static_cast<std::byte*>(buffer.data) + element * dtype_bytes(buffer.dtype);
}

}  // namespace

std::string_view comm_kind_name(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce: return "all_reduce";
    case CommKind::reduce: return "reduce";
    case CommKind::broadcast: return "broadcast";
    case CommKind::reduce_scatter: return "reduce_scatter";
    case CommKind::all_gather: return "all_gather";
    case CommKind::gather: return "gather";
    case CommKind::scatter: return "scatter";
    case CommKind::send: return "send";
    case CommKind::receive: return "receive";
    case CommKind::barrier: return "barrier";
  }
  return "?";
}

const CommBuffer& CommCall::payload() const {
  return kind == CommKind::scatter || kind == CommKind::receive ? out : in;
}

void check_call(const CommCall& call, int rank, int size) {
  const auto what = [&] { return fmt::format("rank {}: {}", rank, describe(call)); };
  const bool names_other = has_root(call.kind) || is_message(call.kind);
  DPTRAIN_CHECK(!names_other || (call.other >= 0 && call.other < size), "{}: no rank {} among {}", what(), call.other,
                size);
  DPTRAIN_CHECK(!is_message(call.kind) || call.other != rank, "{}: a message to itself", what());
  DPTRAIN_CHECK(!sums(call.kind) || can_sum(call.in.dtype), "{}: this dtype can't be summed", what());
  for (const CommBuffer* buffer : {&call.in, &call.out}) {
    DPTRAIN_CHECK(buffer->elements >= 0 && (buffer->data || buffer->elements == 0), "{}: a buffer without memory",
                  what());
  }
  const bool uses_both = !is_message(call.kind) && (!is_uneven(call.kind) || call.other == rank);
  DPTRAIN_CHECK(!uses_both || call.in.dtype == call.out.dtype, "{}: in is {}, out {}", what(),
                dtype_name(call.in.dtype), dtype_name(call.out.dtype));
  if (call.kind == CommKind::reduce_scatter || call.kind == CommKind::all_gather) {
    const bool gathers = call.kind == CommKind::all_gather;
    const CommBuffer& part = gathers ? call.in : call.out;
    const CommBuffer& whole = gathers ? call.out : call.in;
    DPTRAIN_CHECK(whole.elements == size * part.elements, "{}: {} elements aren't {} parts of {}", what(),
                  whole.elements, size, part.elements);
  }
}

int64_t sent_bytes(const CommCall& call, int rank, int size) {
  const int64_t bytes = call.payload().bytes();
  const bool root = call.other == rank;
  switch (call.kind) {
    case CommKind::all_reduce: {
      const int64_t total = 2 * (size - 1) * bytes;
      return total * (rank + 1) / size - total * rank / size;
    }
    case CommKind::reduce: return root ? 0 : bytes;
    case CommKind::broadcast: return root ? (size - 1) * bytes : 0;
    case CommKind::reduce_scatter: return (size - 1) * call.out.bytes();
    case CommKind::all_gather: return (size - 1) * bytes;
    case CommKind::gather: return root ? 0 : bytes;
    case CommKind::scatter: return root ? call.in.bytes() - bytes : 0;
    case CommKind::send: return bytes;
    case CommKind::receive:
    case CommKind::barrier: return 0;
  }
  return 0;
}

std::string describe(const CommCall& call) {
  if (call.kind == CommKind::barrier) return "barrier";
  const CommBuffer& payload = call.payload();
  std::string text = fmt::format("{} {}[{}]", comm_kind_name(call.kind), dtype_name(payload.dtype), payload.elements);
  if (has_root(call.kind)) {
    const bool from = call.kind == CommKind::broadcast || call.kind == CommKind::scatter;
    text += fmt::format(" {} root {}", from ? "from" : "to", call.other);
  }
  return text;
}

bool calls_agree(const CommCall& a, const CommCall& b) {
  const CommBuffer &x = a.payload(), &y = b.payload();
  if (x.dtype != y.dtype || (x.elements != y.elements && !is_uneven(a.kind))) return false;
  // A message is matched by its pair of ranks: one end sends, the other receives, and each names the other.
  return is_message(a.kind) || (a.kind == b.kind && a.other == b.other);
}

std::optional<std::string> sizes_disagree(std::span<const CommCall> calls, std::string_view as) {
  if (!is_uneven(calls[0].kind)) return std::nullopt;
  const int root = calls[0].other;
  const CommBuffer& whole = calls[0].kind == CommKind::gather ? calls[root].out : calls[root].in;
  std::vector<int64_t> parts;
  int64_t total = 0;
  for (const CommCall& call : calls) {
    parts.push_back(call.payload().elements);
    total += parts.back();
  }
  if (total == whole.elements) return std::nullopt;
  return fmt::format("rank {} called {} as {} with {}[{}] for all parts, but the parts have {} elements", root,
                     describe(calls[root]), as, dtype_name(whole.dtype), whole.elements, fmt::join(parts, " + "));
}

std::vector<TreeSum> sums_of(std::span<const CommCall> calls) {
  const auto every = [&](CommBuffer CommCall::*buffer, int64_t element) {
    std::vector<void*> places;
    for (const CommCall& call : calls) places.push_back(at(call.*buffer, element));
    return places;
  };
  const auto every_in = [&](int64_t element) {
    const std::vector<void*> places = every(&CommCall::in, element);
    return std::vector<const void*>(places.begin(), places.end());
  };
  const auto every_out = [&](int64_t element) { return every(&CommCall::out, element); };

  const CommBuffer& payload = calls[0].payload();
  const int64_t elements = payload.elements;
  const DType dtype = payload.dtype;
  const int root = calls[0].other;
  std::vector<TreeSum> sums;
  switch (calls[0].kind) {
    case CommKind::all_reduce: sums.push_back({every_in(0), every_out(0), elements, dtype}); break;
    case CommKind::reduce: sums.push_back({every_in(0), {calls[root].out.data}, elements, dtype}); break;
    case CommKind::broadcast: sums.push_back({{calls[root].in.data}, every_out(0), elements, dtype}); break;
    case CommKind::reduce_scatter:
      for (int64_t start = 0; const CommCall& call : calls) {
        sums.push_back({every_in(start), {call.out.data}, call.out.elements, dtype});
        start += call.out.elements;
      }
      break;
    case CommKind::all_gather:
      for (int64_t start = 0; const CommCall& call : calls) {
        sums.push_back({{call.in.data}, every_out(start), elements, dtype});
        start += elements;
      }
      break;
    case CommKind::gather:
      for (int64_t start = 0; const CommCall& call : calls) {
        sums.push_back({{call.in.data}, {at(calls[root].out, start)}, call.in.elements, dtype});
        start += call.in.elements;
      }
      break;
    case CommKind::scatter:
      for (int64_t start = 0; const CommCall& call : calls) {
        sums.push_back({{at(calls[root].in, start)}, {call.out.data}, call.out.elements, dtype});
        start += call.out.elements;
      }
      break;
    case CommKind::send: sums.push_back({{calls[0].in.data}, {calls[1].out.data}, elements, dtype}); break;
    case CommKind::receive:
    case CommKind::barrier: break;
  }
  return sums;
}

}  // namespace dptrain
