#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "device/device.h"
#include "parallel/phase_clock.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// What a step has shown of some samples: the loss of each, in order, and how many were classified rightly.
struct SampleResults {
  std::vector<double> losses;
  int64_t correct = 0;
};

/// What changes from step to step, where a replica's device reads it, and what a step leaves, where the host reads it:
/// both in blocks that stay where they are, so that a step can be recorded once and run with other values.
///
/// The host may give a device the next step while it is at work on the last: at most `steps_in_flight` of them. Used by
/// the device's rank thread.
class StepExchange {
 public:
  StepExchange(Device& device, int steps_in_flight);

  struct Values {
    double learning_rate = 0;
    int64_t epoch = 0;
    int64_t step = 0;
    std::vector<int64_t> sample_ids = {};
    bool keeps_results = true;  ///< of the samples; otherwise their results are kept by another rank
  };
  /// Begins a step: waits until fewer than `steps_in_flight` are under way, and gives the device its values.
  void begin(const Values& values);

  // For what the step does on the device:

  Tensor learning_rate() const { return block_.part(0, DType::f32, {1}); }
  Tensor epoch() const { return block_.part(4, DType::i32, {1}); }
  Tensor step() const { return block_.part(16, DType::i32, {1}); }
  Tensor sample_ids() const { return block_.part(kHeaderBytes, DType::i64, {samples_}); }
  /// Keeps losses (f64 [N]) and hits (i32 [N]) of the step's samples from number `first` on, to be published.
  void keep(int64_t first, const Tensor& losses, const Tensor& correct);
  /// The device has got to here. `begun` first, in order.
  enum class Point { begun, computed, reduced, updated };
  void stamp(Point point);
  /// Brings what was kept to the host. The last of the step's work.
  void publish();

  /// Ends the step that was begun.
  void end();
  /// Results of steps that are done, oldest first; with `all` it waits for those under way.
  std::vector<SampleResults> take(bool all);
  /// Seconds that the device's own clock measured in the steps taken; nothing for a CPU worker.
  PhaseTimes take_device_times();

  /// Changes where the blocks have moved, so that what was recorded with them no longer holds.
  int64_t generation() const { return generation_; }

 private:
  static constexpr int64_t kHeaderBytes = 64;
  static constexpr int64_t kPoints = 4;

  struct Slot {
    std::unique_ptr<HostMemory> values;
    std::unique_ptr<HostMemory> results;
    std::unique_ptr<DeviceMark> done;
    int64_t samples = 0;
  };

  void reserve(int64_t samples);
  /// Bytes of the results of `samples` samples: stamps, losses, hits.
  static int64_t result_bytes(int64_t samples) { return 8 * kPoints + 12 * samples; }
  Tensor stamps() const { return kept_.part(0, DType::i64, {kPoints}); }
  void finish_oldest();

  Device& device_;
  std::vector<Slot> slots_;
  std::deque<size_t> under_way_;  ///< slots, oldest first
  size_t next_slot_ = 0;
  int64_t capacity_ = -1;
  int64_t samples_ = 0;
  int64_t kept_samples_ = 0;
  int64_t generation_ = 0;
  /// Learning rate f32, epoch i32, address of the results i64, step i32, then at kHeaderBytes the sample ids i64.
  Tensor block_;
  Tensor kept_;  ///< stamps i64 [4], losses f64, hits i32
  std::vector<SampleResults> finished_;
  PhaseTimes device_times_;
};

}  // namespace dptrain::parallel
