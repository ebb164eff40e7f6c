#include "config/bounded_feed.h"

#include <algorithm>

namespace dptrain {

BoundedFeed::int_type BoundedFeed::underflow() {
  constexpr size_t kLimitBytes = size_t{64} << 10;
  if (text_.empty()) return traits_type::eof();
  if (since_event_bytes_ >= kLimitBytes) {
    ended_early_ = true;
    return traits_type::eof();
  }
  const size_t count = std::min(sizeof block_, text_.size());
  text_.copy(block_, count);
  text_.remove_prefix(count);
  since_event_bytes_ += count;
  setg(block_, block_, block_ + count);
  return traits_type::to_int_type(*block_);
}

}  // namespace dptrain
