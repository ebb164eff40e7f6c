#include "device/operator_log.h"

#include <algorithm>
#include <utility>

namespace dptrain {

void OperatorLog::touches(const void* memory, int64_t bytes, std::string_view shape) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(touched_, memory) != touched_.end()) return;
  touched_.push_back(memory);
  next_.bytes += bytes;
  if (!shape.empty() && !next_.operands.empty()) next_.operands += ' ';
  next_.operands += shape;
}

void OperatorLog::multiplies(double flops) {
  const std::lock_guard lock(mutex_);
  next_.flops += flops;
}

void OperatorLog::goes_by(std::string_view way) {
  const std::lock_guard lock(mutex_);
  if (!open_.empty() && open_.back() < costs_.size()) costs_[open_.back()].way = way;
}

void OperatorLog::add(std::string_view name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  costs_.push_back({.name = std::string(name), .bytes = bytes});
}

size_t OperatorLog::begin(std::string_view name) {
  const std::lock_guard lock(mutex_);
  next_.name = name;
  next_.inside = !open_.empty();
  open_.push_back(costs_.size());
  costs_.push_back(std::exchange(next_, {}));
  touched_.clear();
  return costs_.size() - 1;
}

void OperatorLog::end(size_t number, int64_t held_bytes_before, int64_t held_bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  std::erase(open_, number);
  if (number >= costs_.size()) return;
  costs_[number].bytes += std::max<int64_t>(0, held_bytes - held_bytes_before);
  costs_[number].held_bytes = held_bytes;
  costs_[number].seconds = seconds;
}

size_t OperatorLog::size() {
  const std::lock_guard lock(mutex_);
  return costs_.size();
}

void OperatorLog::clear() {
  const std::lock_guard lock(mutex_);
  next_ = {};
  touched_.clear();
  costs_.clear();
}

}  // namespace dptrain
