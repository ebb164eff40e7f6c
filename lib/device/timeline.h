#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace dptrain {

/// An interval on a timeline, such as an operator, an exchange or a phase.
struct TimelineSpan {
  std::string name;  ///< "conv2d backward weights"
  Clock::time_point begin;
  Clock::time_point end;
  /// The thread of the span, numbered from 0 in the order in which threads first had one. Spans of one thread are
  /// nested or follow each other. Spans of different threads may overlap.
  int thread = 0;
  bool is_phase = false;  ///< it contains other spans
  // For an operator:
  std::string operands = {};  ///< shapes of the tensors that it is given, "[64, 1, 28, 28] [20, 1, 5, 5]"
  std::string way = {};       ///< the algorithm, for operators that have several: "winograd"
  double flops = 0;           ///< of products: a multiplication and an addition are two
  int64_t held_bytes = 0;     ///< that the device's tensors take at its end; 0: unknown
  // For an exchange between ranks:
  int64_t bytes = 0;           ///< of the caller's buffer
  Clock::duration alone = {};  ///< the part of its time before the last of this process's ranks had come
};

/// What a device does over time, to be drawn. Several threads may use it.
///
/// If a device records work to be run again and again, the spans of that work are recorded too: see `record`.
class Timeline {
 public:
  /// The number of a span that isn't kept.
  static constexpr int64_t kNone = -1;

  virtual ~Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Sets whether spans that begin from now on are kept.
  void keep(bool keep) { keeps_.store(keep, std::memory_order_relaxed); }
  /// Whether a span that begins now is kept or recorded.
  bool is_wanted() const { return keeps_.load(std::memory_order_relaxed) || records_.load(std::memory_order_relaxed); }

  /// Begins a span; `span` is what is known of it apart from its times. Returns its number, or kNone if it isn't kept.
  /// Spans of a thread end in the reverse order.
  int64_t begin(TimelineSpan span);
  /// Begins the span of an operator, with what the thread has noted about it.
  int64_t begin(std::string_view op);
  /// Begins a span that contains others.
  int64_t begin_phase(std::string_view name);
  /// Ends a span. May be called while an exception propagates: it throws nothing.
  void end(int64_t span, int64_t held_bytes = 0);
  /// Keeps a span that was measured elsewhere, on the host.
  void add(TimelineSpan span);

  // The first two describe the operator that the calling thread begins next, the last one the operator that it began
  // last.
  void is_given(const void* memory, std::string_view shape);
  void multiplies(double flops);
  void goes_by(std::string_view way);

  /// A span whose ends are marks. The kind of timeline knows what a mark means.
  struct Marked {
    TimelineSpan span;
    int64_t begin = kNone;
    int64_t end = kNone;
  };
  using Recording = std::vector<Marked>;
  /// Counts spans from now on, kept or not, as part of recorded work until `take_recording`.
  void record();
  Recording take_recording();
  /// Adds the spans of recorded work that is run once more.
  void repeat(const Recording& recording);

  /// Finds the times of the spans that have ended. Blocks until the device has reached their ends, and forgets spans
  /// that haven't ended. The device's rank thread calls it between steps.
  void settle();
  /// The spans that have been settled or added since the last call.
  std::vector<TimelineSpan> take();
  /// How many spans had no room for a mark so far.
  int64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

 protected:
  Timeline() = default;
  /// Marks the current moment, or the moment at which the device gets here; kNone if that isn't possible. With `stays`
  /// the mark is set again whenever the recorded work runs. Throws nothing.
  virtual int64_t mark(bool stays) = 0;
  /// The times of these marks. Marks that don't stay may be reused afterwards.
  virtual std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) = 0;

 private:
  struct Thread {
    int number = 0;
    std::vector<int64_t> open;
    TimelineSpan next = {};  ///< what is known of the operator that begins next
    std::vector<const void*> given = {};
  };
  Thread& own_thread();
  /// Spans of recorded work have odd numbers.
  Marked& marked(int64_t span) { return (span % 2 == 0 ? marked_ : recorded_)[static_cast<size_t>(span / 2)]; }

  std::atomic<bool> keeps_ = false;
  std::atomic<bool> records_ = false;
  std::atomic<int64_t> left_out_ = 0;
  std::mutex mutex_;
  std::map<std::thread::id, Thread> threads_;
  std::vector<Marked> marked_;
  Recording recorded_;
  std::vector<TimelineSpan> spans_;
};

/// A timeline by the host's clock, for work that is done when its call returns.
class HostTimeline final : public Timeline {
 private:
  int64_t mark(bool) override { return Clock::now().time_since_epoch().count(); }
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override;
};

/// A phase that lasts as long as the object. Does nothing without a timeline.
class InSpan {
 public:
  InSpan(Timeline* timeline, std::string_view name)
      : timeline_(timeline), span_(timeline == nullptr ? Timeline::kNone : timeline->begin_phase(name)) {}
  ~InSpan() {
    if (span_ != Timeline::kNone) timeline_->end(span_);
  }
  InSpan(const InSpan&) = delete;
  InSpan& operator=(const InSpan&) = delete;

 private:
  Timeline* timeline_;
  int64_t span_;
};

}  // namespace dptrain
