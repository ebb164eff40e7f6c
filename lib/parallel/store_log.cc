#include "parallel/store_log.h"

#include <algorithm>
#include <utility>

namespace dptrain::parallel {

StoreLog::StoreLog(const Device& device, CallLog& calls, bool first)
    : operators_(*device.operator_log()), calls_(calls), first_(first) {}

void StoreLog::push(size_t key, const CommBuffer& gradient, int64_t sent_bytes) {
  begin({.call = {.kind = CommKind::send, .in = gradient}, .sent_bytes = sent_bytes, .key = key}, pushes_);
  // The rank that sends for all ranks asks for the weights at once.
  if (first_) begin({.call = {.kind = CommKind::receive, .out = gradient}, .key = key}, pulls_);
}

void StoreLog::begin(LoggedCall call, std::vector<size_t>& places) {
  places.resize(std::max(places.size(), *call.key + 1));
  places[*call.key] = calls_.size();
  call.is_awaited = first_;
  call.started_after = operators_.costs().size();
  calls_.push_back(std::move(call));
}

void StoreLog::await(size_t place) {
  calls_[place].awaited_after = operators_.costs().size();
  calls_[place].awaited_calls = calls_.size();
}

void StoreLog::wait_until_sent() {
  for (const size_t place : pushes_) await(place);
}

void StoreLog::wait_for_weights(size_t key) { await(pulls_[key]); }

}  // namespace dptrain::parallel
