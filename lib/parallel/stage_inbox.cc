#include "parallel/stage_inbox.h"

#include <algorithm>

#include "base/check.h"

namespace dptrain::parallel {

void StageInbox::expect(const StageLink& link, int64_t micro_batch) {
  const auto wanted = std::ranges::find_if(
      coming_, [&](const Arrival& arrival) { return &arrival.link == &link && arrival.micro_batch == micro_batch; });
  if (wanted == coming_.end()) return;  // it has already arrived
  for (const auto end = static_cast<size_t>(wanted - coming_.begin()) + 1; expected_ < end; ++expected_) {
    Arrival& next = coming_[expected_];
    const bool is_known = next.comes == nullptr || next.comes->has_value();
    const bool comes = is_known && (next.comes == nullptr || **next.comes);
    if (!is_known || (comes && !next.link.expect(next.signature, next.place))) return;
  }
}

StageLink::Crossing StageInbox::receive(const StageLink& link, int64_t micro_batch) {
  const auto key = std::pair(&link, micro_batch);
  while (!kept_.contains(key)) {
    DPTRAIN_CHECK(!coming_.empty(), "what a stage needs of micro-batch {} is not sent to it", micro_batch);
    const Arrival next = std::move(coming_.front());
    coming_.pop_front();
    if (expected_ > 0) --expected_;
    if (next.comes != nullptr && !next.comes->value()) continue;
    kept_.emplace(std::pair(&next.link, next.micro_batch), next.link.receive(next.signature, next.place));
  }
  return std::move(kept_.extract(key).mapped());
}

void StageInbox::end() {
  const bool is_done = std::ranges::all_of(
      coming_, [](const Arrival& arrival) { return arrival.comes != nullptr && !arrival.comes->value(); });
  DPTRAIN_CHECK(is_done && kept_.empty(), "a stage was sent what it has no use for");
  coming_.clear();
  expected_ = 0;
}

}  // namespace dptrain::parallel
