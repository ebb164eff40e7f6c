#pragma once

#include "comm/meta_communicator.h"
#include "plan/device_figures.h"

namespace dptrain::testing {

/// A device whose products take a second per flop, and whose calls of B bytes take 1 + B seconds.
inline plan::DeviceFigures unit_figures() {
  return {.name = "unit",
          .fp32_flops = 2,  // products reach half of this
          .memory_bytes_per_s = 1e9,
          .inside = {.latency_s = 1, .bytes_per_s = 1},
          .source = "a test"};
}

inline LoggedCall call_of(CommKind kind, int64_t elements, size_t started, size_t awaited, int ranks = 2) {
  const CommBuffer buffer{.elements = elements, .dtype = DType::u8};
  return {.call = {.kind = kind, .in = buffer, .out = buffer},
          .ranks = ranks,
          .started_after = started,
          .awaited_after = awaited,
          .awaited_calls = 1};
}

inline LoggedCall message_of(CommKind kind, int rank, int other, size_t after) {
  const CommBuffer buffer{.elements = 4, .dtype = DType::u8};
  return {.call = {.kind = kind, .in = buffer, .out = buffer, .other = other},
          .ranks = 2,
          .rank = rank,
          .started_after = after,
          .awaited_after = after,
          .awaited_calls = 1};
}

}  // namespace dptrain::testing
