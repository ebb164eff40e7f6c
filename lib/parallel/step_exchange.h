#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "parallel/phase_clock.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// What a step has shown of the rows of one of the model's outputs.
struct OutputResults {
  std::vector<double> losses;  ///< of each row, in order; zero where it is ignored
  int64_t correct = 0;         ///< rows whose largest logit is at the label
  int64_t counted = 0;         ///< rows that aren't ignored
};

/// What it has shown of some samples.
struct StepResults {
  std::vector<OutputResults> outputs;
  int64_t samples = 0;
};

/// How many rows of an output there will be results of, and how many of them aren't ignored.
struct OutputRows {
  int64_t rows = 0;
  int64_t counted = 0;
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
    double delay_s = 0;                ///< that the device is to be late by; needs `allow_delays`
    std::vector<int64_t> counts = {};  ///< that the losses of each output are divided by; at most kMostOutputs
    std::vector<int64_t> sample_ids = {};
    int64_t numbers = 0;                               ///< how many there are of whatever else the step reads
    std::function<void(int32_t*)> write_numbers = {};  ///< writes them where the device reads them
    // What is kept of the step on this rank:
    std::vector<OutputRows> outputs = {};
    int64_t samples = 0;
  };
  static constexpr size_t kMostOutputs = 8;
  /// Before the first step: each step, where it has begun, has the device look whether it is to be late.
  void allow_delays() { may_delay_ = true; }
  /// Begins a step: waits until fewer than `steps_in_flight` are under way, and gives the device its values.
  void begin(const Values& values);

  // For what the step does on the device:

  Tensor learning_rate() const { return block_.part(0, DType::f32, {1}); }
  Tensor epoch() const { return block_.part(4, DType::i32, {1}); }
  Tensor step() const { return block_.part(16, DType::i32, {1}); }
  /// i32 [1]
  Tensor count(size_t output) const { return block_.part(20 + 4 * static_cast<int64_t>(output), DType::i32, {1}); }
  Tensor sample_ids() const { return block_.part(kHeaderBytes, DType::i64, {ids_}); }
  /// i32 [numbers]
  Tensor numbers() const { return block_.part(kHeaderBytes + 8 * ids_, DType::i32, {numbers_}); }
  /// Keeps losses (f64 [R]) and hits (i32 [R]) of an output's rows from number `first` on, to be published.
  void keep(size_t output, int64_t first, const Tensor& losses, const Tensor& correct);
  /// The device has got to here. `begun` first, in order; `averaged` in every step or in none.
  enum class Point { begun, computed, reduced, updated, averaged };
  void stamp(Point point);
  /// Brings what was kept to the host. The last of the step's work.
  void publish();

  /// Ends the step that was begun.
  void end();
  /// Results of steps that are done, oldest first; with `all` it waits for those under way.
  std::vector<StepResults> take(bool all);
  /// Seconds that the device's own clock measured in the steps taken; nothing for a CPU worker.
  PhaseTimes take_device_times();

  /// Changes where the blocks have moved, so that what was recorded with them no longer holds.
  int64_t generation() const { return generation_; }

 private:
  static constexpr int64_t kDelayAt = 56;
  static constexpr int64_t kHeaderBytes = 64;
  static_assert(20 + 4 * int64_t{kMostOutputs} <= kDelayAt && kDelayAt + 8 <= kHeaderBytes);
  static constexpr int64_t kPoints = 5;

  struct Slot {
    std::unique_ptr<HostMemory> values;
    std::unique_ptr<HostMemory> results;
    std::unique_ptr<DeviceMark> done;
    std::vector<OutputRows> outputs;
    int64_t samples = 0;
  };

  void reserve(int64_t value_bytes, int64_t rows);
  /// Bytes of the results of `rows` rows, of all outputs: stamps, losses, hits.
  static int64_t result_bytes(int64_t rows) { return 8 * kPoints + 12 * rows; }
  Tensor stamps() const { return kept_.part(0, DType::i64, {kPoints}); }
  void finish_oldest();

  Device& device_;
  std::vector<Slot> slots_;
  std::deque<size_t> under_way_;  ///< slots, oldest first
  size_t next_slot_ = 0;
  int64_t ids_ = 0;
  int64_t numbers_ = 0;
  std::vector<int64_t> first_rows_;  ///< of each output, among the rows kept
  int64_t kept_rows_ = 0;
  bool may_delay_ = false;
  int64_t generation_ = 0;
  /// Learning rate f32, epoch i32, address of the results i64, step i32, counts i32, at kDelayAt nanoseconds i64, then
  /// at kHeaderBytes the sample ids i64 and the numbers i32.
  Tensor block_;
  Tensor kept_;  ///< stamps i64 [5], losses f64, hits i32; of each the outputs one after the other
  std::vector<StepResults> finished_;
  PhaseTimes device_times_;
};

}  // namespace dptrain::parallel
