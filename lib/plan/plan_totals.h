#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/planned_step.h"
#include "tensor/dtype.h"

namespace dptrain::plan {

struct OperatorTotal {
  int64_t calls = 0;
  double flops = 0;
  int64_t bytes = 0;
};

/// Totals of all calls of each operator in a step, in the order of the operators' first calls.
std::vector<std::pair<std::string, OperatorTotal>> operator_totals(const PlannedRank& rank);

struct MessageTotal {
  int64_t calls = 0;
  int64_t elements = 0;
  int64_t sent_bytes = 0;
};

/// A message's name, type, root or peer (-1: none), and whether it is in host memory.
using MessageKey = std::tuple<std::string, DType, int, bool>;

/// Totals of equal messages in a step, in the order of their first calls; barriers don't count.
std::vector<std::pair<MessageKey, MessageTotal>> message_totals(const PlannedRank& rank);

/// "all_reduce f32", "reduce f32, to 0"
std::string message_name(const MessageKey& key);

}  // namespace dptrain::plan
