#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "ops/square_digits.h"
#include "parallel/gradient_noise.h"
#include "parallel/phase_clock.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

/// A step's results for the rows of one of the model's outputs.
struct OutputResults {
  std::vector<double> losses;  ///< of each row, in order; 0 if the row is ignored
  int64_t correct = 0;         ///< rows whose largest logit is at the label
  int64_t counted = 0;         ///< rows that aren't ignored
};

/// A step's results for some samples.
struct StepResults {
  std::vector<OutputResults> outputs;
  int64_t samples = 0;
  std::optional<GradientSquares> squares = {};  ///< set if they are measured
};

/// Number of rows that an output will have results of, and how many of them aren't ignored.
struct OutputRows {
  int64_t rows = 0;
  int64_t counted = 0;
};

/// Carries values to a replica's device before each step and results to the host after it. Both are in blocks at fixed
/// addresses, so that a step can be recorded once and run with other values.
///
/// The host may give a device the next step while the device still works on earlier ones: at most `steps_in_flight`
/// steps. Used by the device's rank thread.
class StepExchange {
 public:
  StepExchange(Device& device, int steps_in_flight);

  struct Values {
    double learning_rate = 0;
    int64_t epoch = 0;
    int64_t step = 0;
    double delay_s = 0;                ///< artificial delay of the device; needs `allow_delays`
    std::vector<int64_t> counts = {};  ///< divisors of the losses, by output; at most kMostOutputs
    std::vector<int64_t> sample_ids = {};
    int64_t numbers = 0;                               ///< how many numbers (i32) the step reads in addition
    std::function<void(int32_t*)> write_numbers = {};  ///< writes these numbers at an address that the device reads
    // Sizes of the results that this rank keeps of the step:
    std::vector<OutputRows> outputs = {};
    int64_t samples = 0;
  };
  static constexpr size_t kMostOutputs = 8;
  /// Called before the first step. Every step then lets the device check at its beginning whether it is to be delayed.
  void allow_delays() { may_delay_ = true; }
  /// Called before the first step. Every step then measures squared norms of gradients.
  void measure_squares() { square_bytes_ = kSquareBytes; }
  bool measures_squares() const { return square_bytes_ > 0; }
  /// Begins a step. Waits until fewer than `steps_in_flight` steps are under way, then gives the device the values.
  void begin(const Values& values);

  // The following members are for the step's work on the device:

  Tensor learning_rate() const { return block_.part(0, DType::f32, {1}); }
  Tensor epoch() const { return block_.part(4, DType::i32, {1}); }
  Tensor step() const { return block_.part(16, DType::i32, {1}); }
  /// i32 [1]
  Tensor count(size_t output) const { return block_.part(20 + 4 * static_cast<int64_t>(output), DType::i32, {1}); }
  Tensor sample_ids() const { return block_.part(kHeaderBytes, DType::i64, {ids_}); }
  /// i32 [numbers]
  Tensor numbers() const { return block_.part(kHeaderBytes + 8 * ids_, DType::i32, {numbers_}); }
  /// Keeps losses (f64 [R]) and hits (i32 [R]) of an output's rows, from row `first` on, until `publish`.
  void keep(size_t output, int64_t first, const Tensor& losses, const Tensor& correct);
  /// Records the time at which the device gets here. `begun` comes first, then the others in order; `averaged` is used
  /// in every step or in none.
  enum class Point { begun, computed, reduced, updated, averaged };
  void stamp(Point point);
  /// If squares are measured: begins their sums in this step. `loss_factor`: f32 [1], or undefined for 1.
  void begin_squares(const Tensor& loss_factor);
  enum class Squares { own, summed };
  /// Adds the squares of gradients (f32, flat) to a sum of GradientSquares; does nothing if they aren't measured.
  void add_squares(Squares of, const Tensor& gradients);
  /// Brings the kept results to the host. It must be the last of the step's work.
  void publish();

  /// Ends the step that was begun.
  void end();
  /// Returns the results of finished steps, oldest first. With `all` it first waits for the steps under way.
  std::vector<StepResults> take(bool all);
  /// Returns the results of the oldest step that haven't been taken. Waits for the step if it is under way.
  StepResults take_oldest();
  /// Returns the seconds that the device's own clock measured in the steps taken; nothing for a CPU worker.
  PhaseTimes take_device_times();

  /// Changes when the blocks have moved. Work that was recorded with the old blocks is then invalid.
  int64_t generation() const { return generation_; }

 private:
  static constexpr int64_t kDelayAt = 56;
  static constexpr int64_t kHeaderBytes = 64;
  static_assert(20 + 4 * int64_t{kMostOutputs} <= kDelayAt && kDelayAt + 8 <= kHeaderBytes);
  static constexpr int64_t kPoints = 5;
  static constexpr int64_t kSumBytes = 8 * int64_t{ops::kSquareSumNumbers};
  /// Two sums and the loss factor.
  static constexpr int64_t kSquareBytes = 2 * kSumBytes + 8;

  struct Slot {
    std::unique_ptr<HostMemory> values;
    std::unique_ptr<HostMemory> results;
    std::unique_ptr<DeviceMark> done;
    std::vector<OutputRows> outputs;
    int64_t samples = 0;
  };

  void reserve(int64_t value_bytes, int64_t rows);
  /// Bytes of the results of `rows` rows of all outputs.
  int64_t result_bytes(int64_t rows) const { return rows_at() + 12 * rows; }
  /// Where the rows' results begin.
  int64_t rows_at() const { return 8 * kPoints + square_bytes_; }
  Tensor squares(Squares of) const;
  GradientSquares read_squares(const std::byte* results) const;
  Tensor stamps() const { return kept_.part(0, DType::i64, {kPoints}); }
  void finish_oldest();

  Device& device_;
  std::vector<Slot> slots_;
  std::deque<size_t> under_way_;  ///< slots, oldest first
  size_t next_slot_ = 0;
  int64_t ids_ = 0;
  int64_t numbers_ = 0;
  std::vector<int64_t> first_rows_;  ///< by output: its first row among the kept rows
  int64_t kept_rows_ = 0;
  bool may_delay_ = false;
  int64_t square_bytes_ = 0;  ///< bytes of the squares among the results
  int64_t generation_ = 0;
  /// Learning rate f32, epoch i32, address of the results i64, step i32, counts i32; at kDelayAt the delay in
  /// nanoseconds i64; at kHeaderBytes the sample ids i64, then the numbers i32.
  Tensor block_;
  /// Stamps i64 [5]; if measured, squares f64 [2, 16] and the loss factor f32; then losses f64 and hits i32, both
  /// output by output.
  Tensor kept_;
  std::vector<StepResults> finished_;
  PhaseTimes device_times_;
};

}  // namespace dptrain::parallel
