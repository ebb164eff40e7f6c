#include "parallel/rank_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dptrain::parallel {

std::string step_name(int64_t step) { return fmt::format("step {}", step); }

RankTimelines::RankTimelines(Device& device)
    : device_(device), computing_(device.make_timeline()), device_exchanges_(device.make_communication_timeline()) {
  device.show_on(computing_.get(), device_exchanges_.get());
}

RankTimelines::~RankTimelines() { device_.show_on(nullptr, nullptr); }

void RankTimelines::keep(bool keep) {
  computing_->keep(keep);
  exchanges_.keep(keep);
  if (device_exchanges_) device_exchanges_->keep(keep);
}

void RankTimelines::do_step(int64_t step, const ShownSteps& shown, const std::function<void()>& work) {
  const bool is_shown = shown.contains(step);
  if (step > shown.last) device_.show_on(nullptr, nullptr);
  keep(is_shown);
  {
    const InSpan span(computing_.get(), step_name(step));
    work();
  }
  if (!is_shown) return;
  computing_->settle();
  if (device_exchanges_) device_exchanges_->settle();
  keep(false);
}

std::vector<TimelineRow> RankTimelines::take() {
  // Shorter spans can't be seen: operators that do nothing on this device, and waits for values that were already
  // there.
  static constexpr auto kShortest = std::chrono::microseconds(1);
  std::vector<TimelineRow> rows = {{.spans = computing_->take(), .left_out = computing_->left_out()},
                                   {.is_communication = true, .spans = exchanges_.take()}};
  std::erase_if(rows[0].spans, [](const TimelineSpan& span) { return span.end - span.begin < kShortest; });
  if (device_exchanges_) {
    std::ranges::move(device_exchanges_->take(), std::back_inserter(rows[1].spans));
    rows[1].left_out = device_exchanges_->left_out();
  }
  for (TimelineRow& row : rows) std::ranges::stable_sort(row.spans, {}, &TimelineSpan::begin);
  return rows;
}

}  // namespace dptrain::parallel
