#include "device/timeline.h"

#include <algorithm>
#include <utility>

namespace dptrain {

Timeline::Thread& Timeline::own_thread() {
  const int next = static_cast<int>(threads_.size());
  return threads_.try_emplace(std::this_thread::get_id(), Thread{.number = next, .open = {}}).first->second;
}

int64_t Timeline::begin_phase(std::string_view name) {
  if (!is_wanted()) return kNone;
  return begin(TimelineSpan{.name = std::string(name), .begin = {}, .end = {}, .is_phase = true});
}

int64_t Timeline::begin(std::string_view op) {
  if (!is_wanted()) return kNone;
  TimelineSpan span;
  {
    const std::lock_guard lock(mutex_);
    Thread& thread = own_thread();
    span = std::exchange(thread.next, {});
    thread.given.clear();
  }
  span.name = op;
  return begin(std::move(span));
}

int64_t Timeline::begin(TimelineSpan span) {
  if (!is_wanted()) return kNone;
  const std::lock_guard lock(mutex_);
  Thread& thread = own_thread();
  const bool records = records_;
  Marked made{.span = std::move(span), .begin = mark(records)};
  if (made.begin == kNone) {
    ++left_out_;
    return kNone;
  }
  made.span.thread = thread.number;
  Recording& list = records ? recorded_ : marked_;
  list.push_back(std::move(made));
  const int64_t number = 2 * static_cast<int64_t>(list.size() - 1) + (records ? 1 : 0);
  thread.open.push_back(number);
  return number;
}

void Timeline::end(int64_t span, int64_t held_bytes) {
  if (span == kNone) return;
  const std::lock_guard lock(mutex_);
  std::erase(own_thread().open, span);
  Marked& ended = marked(span);
  ended.end = mark(span % 2 != 0);
  ended.span.held_bytes = held_bytes;
}

void Timeline::add(TimelineSpan span) {
  const std::lock_guard lock(mutex_);
  span.thread = own_thread().number;
  spans_.push_back(std::move(span));
}

void Timeline::is_given(const void* memory, std::string_view shape) {
  if (!is_wanted()) return;
  const std::lock_guard lock(mutex_);
  Thread& thread = own_thread();
  if (std::ranges::find(thread.given, memory) != thread.given.end()) return;
  thread.given.push_back(memory);
  if (!thread.next.operands.empty()) thread.next.operands += ' ';
  thread.next.operands += shape;
}

void Timeline::multiplies(double flops) {
  if (!is_wanted()) return;
  const std::lock_guard lock(mutex_);
  own_thread().next.flops += flops;
}

void Timeline::goes_by(std::string_view way) {
  if (!is_wanted()) return;
  const std::lock_guard lock(mutex_);
  if (const auto& open = own_thread().open; !open.empty()) marked(open.back()).span.way = way;
}

void Timeline::record() {
  const std::lock_guard lock(mutex_);
  records_ = true;
}

Timeline::Recording Timeline::take_recording() {
  const std::lock_guard lock(mutex_);
  records_ = false;
  return std::exchange(recorded_, {});
}

void Timeline::repeat(const Recording& recording) {
  if (!is_wanted()) return;
  const std::lock_guard lock(mutex_);
  marked_.insert(marked_.end(), recording.begin(), recording.end());
}

void Timeline::settle() {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> marks;
  for (const Marked& span : marked_) {
    if (span.end == kNone) continue;
    marks.push_back(span.begin);
    marks.push_back(span.end);
  }
  if (marks.empty()) return;
  const std::vector<Clock::time_point> found = moments(marks);
  auto moment = found.begin();
  for (Marked& span : marked_) {
    if (span.end == kNone) continue;
    span.span.begin = *moment++;
    span.span.end = *moment++;
    spans_.push_back(std::move(span.span));
  }
  marked_.clear();
  for (auto& [id, thread] : threads_) thread.open.clear();
}

std::vector<TimelineSpan> Timeline::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

std::vector<Clock::time_point> HostTimeline::moments(const std::vector<int64_t>& marks) {
  std::vector<Clock::time_point> moments;
  for (const int64_t mark : marks) moments.emplace_back(Clock::duration(mark));
  return moments;
}

}  // namespace dptrain
