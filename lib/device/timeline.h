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

/// Something that took a while.
struct TimelineSpan {
  std::string name;  ///< "conv2d backward weights"
  Clock::time_point begin;
  Clock::time_point end;
  /// Which of the threads that a timeline has spans of, from 0 in the order in which they came: spans of one lie within
  /// or behind each other, those of several may be at once.
  int thread = 0;
  bool is_phase = false;  ///< it is what others lie within
  // Of an operator:
  std::string operands = {};  ///< shapes of the tensors that it is given, "[64, 1, 28, 28] [20, 1, 5, 5]"
  std::string way = {};       ///< the algorithm, of operators that have several: "winograd"
  double flops = 0;           ///< of products: a multiplication and an addition are two
  int64_t held_bytes = 0;     ///< that the device's tensors take at its end; 0: not known
  // Of an exchange between ranks:
  int64_t bytes = 0;           ///< of the caller's buffer
  Clock::duration alone = {};  ///< of its time: until the last of this process's ranks had come
};

/// What a device is at from moment to moment, to be drawn. May be used by several threads.
///
/// Where a device records work, to be run again and again, what it is at then is recorded as well: see `record`.
class Timeline {
 public:
  /// A span that isn't kept.
  static constexpr int64_t kNone = -1;

  virtual ~Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /// Whether spans that begin from now on are kept.
  void keep(bool keep) { keeps_.store(keep, std::memory_order_relaxed); }
  /// Whether a span that begins now is kept, or recorded.
  bool is_wanted() const { return keeps_.load(std::memory_order_relaxed) || records_.load(std::memory_order_relaxed); }

  /// A span begins, of which that much is known beside its moments. Returns its number, kNone where it isn't kept.
  /// Those of a thread end in the reverse order.
  int64_t begin(TimelineSpan span);
  /// That of an operator, with what the thread has told of it.
  int64_t begin(std::string_view op);
  /// That of something which others lie within.
  int64_t begin_phase(std::string_view name);
  /// It has ended. Also while an exception is on its way: throws nothing.
  void end(int64_t span, int64_t held_bytes = 0);
  /// Keeps a span that was measured elsewhere, on the host.
  void add(TimelineSpan span);

  // Of the operator that the calling thread begins next, and of the one that it began last:
  void is_given(const void* memory, std::string_view shape);
  void multiplies(double flops);
  void goes_by(std::string_view way);

  /// A span whose ends are marks: what they mean, the kind of timeline knows.
  struct Marked {
    TimelineSpan span;
    int64_t begin = kNone;
    int64_t end = kNone;
  };
  using Recording = std::vector<Marked>;
  /// From now on spans belong to work that is recorded, whether they are kept or not, until they are taken.
  void record();
  Recording take_recording();
  /// That work is done once more.
  void repeat(const Recording& recording);

  /// Finds when the spans that have ended were. Blocks until the device has come to their ends, and forgets those that
  /// haven't ended. Called between steps, by the device's rank thread.
  void settle();
  /// The spans that have been settled or added since the last call.
  std::vector<TimelineSpan> take();
  /// How many spans there was no room to mark, so far.
  int64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

 protected:
  Timeline() = default;
  /// Marks this moment, or that at which the device gets here; kNone where it can't. With `stays` it is marked again
  /// whenever recorded work comes by. Throws nothing.
  virtual int64_t mark(bool stays) = 0;
  /// The moments of these marks; those that don't stay may be used for others then.
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

/// One by the host's clock: of work that is done when the call that does it has returned.
class HostTimeline final : public Timeline {
 private:
  int64_t mark(bool) override { return Clock::now().time_since_epoch().count(); }
  std::vector<Clock::time_point> moments(const std::vector<int64_t>& marks) override;
};

/// A phase that lasts as long as this; nothing without a timeline.
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
