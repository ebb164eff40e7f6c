#include "parallel/step_exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "ops/delay.h"
#include "ops/square_sum.h"
#include "ops/step_results.h"

namespace dptrain::parallel {
namespace {

/// Bytes to hold from now on. Sizes that have changed once will change again, and each change invalidates recorded
/// work.
int64_t grown(int64_t held, int64_t needed) { return needed <= held ? held : std::max(needed, held + held / 4); }

}  // namespace

StepExchange::StepExchange(Device& device, int steps_in_flight)
    : device_(device), slots_(static_cast<size_t>(steps_in_flight)) {
  DPTRAIN_CHECK(steps_in_flight > 0, "{} steps in flight", steps_in_flight);
}

void StepExchange::reserve(int64_t value_bytes, int64_t rows) {
  const int64_t held_values = block_.defined() ? block_.bytes() : 0, held_results = kept_.defined() ? kept_.bytes() : 0;
  if (value_bytes <= held_values && result_bytes(rows) <= held_results) return;
  while (!under_way_.empty()) finish_oldest();
  ++generation_;
  const std::shared_ptr<void> recording_off = device_.keep_recording_off();
  const TensorOptions bytes{.dtype = DType::u8, .purpose = MemoryPurpose::workspace};
  block_ = Tensor::empty(device_, {grown(held_values, value_bytes)}, bytes);
  kept_ = Tensor::zeros(device_, {grown(held_results, result_bytes(rows))}, bytes);
  for (Slot& slot : slots_) {
    slot.values = device_.host_memory(block_.bytes());
    slot.results = device_.host_memory(kept_.bytes());
    slot.done = device_.make_mark();
  }
}

void StepExchange::begin(const Values& values) {
  DPTRAIN_CHECK(values.counts.size() <= kMostOutputs, "{} outputs", values.counts.size());
  ids_ = static_cast<int64_t>(values.sample_ids.size());
  numbers_ = values.numbers;
  first_rows_.clear();
  kept_rows_ = 0;
  for (const OutputRows& output : values.outputs) {
    first_rows_.push_back(kept_rows_);
    kept_rows_ += output.rows;
  }
  const int64_t used_bytes = kHeaderBytes + 8 * ids_ + 4 * numbers_;
  reserve(used_bytes, kept_rows_);
  if (under_way_.size() == slots_.size()) finish_oldest();
  Slot& slot = slots_[next_slot_];
  slot.outputs = values.outputs;
  slot.samples = values.samples;

  auto* out = static_cast<std::byte*>(slot.values->data());
  const auto write = [out](int64_t offset, const auto& value) { std::memcpy(out + offset, &value, sizeof value); };
  write(0, static_cast<float>(values.learning_rate));
  write(4, static_cast<int32_t>(values.epoch));
  write(8, slot.results->data());
  write(16, static_cast<int32_t>(values.step));
  for (size_t k = 0; k < values.counts.size(); ++k)
    write(20 + 4 * static_cast<int64_t>(k), static_cast<int32_t>(values.counts[k]));
  write(kDelayAt, static_cast<int64_t>(1e9 * values.delay_s));
  if (ids_ > 0) std::memcpy(out + kHeaderBytes, values.sample_ids.data(), 8 * values.sample_ids.size());
  if (numbers_ > 0) values.write_numbers(reinterpret_cast<int32_t*>(out + kHeaderBytes + 8 * ids_));
  device_.copy_from_host(block_.raw(), *slot.values, used_bytes);
}

void StepExchange::keep(size_t output, int64_t first, const Tensor& losses, const Tensor& correct) {
  if (losses.elements() == 0) return;
  const int64_t count = losses.elements(), row = first_rows_[output] + first;
  kept_.part(rows_at() + 8 * row, DType::f64, {count}).copy_from(losses);
  kept_.part(rows_at() + 8 * kept_rows_ + 4 * row, DType::i32, {count}).copy_from(correct);
}

void StepExchange::stamp(Point point) {
  ops::stamp_time(stamps(), static_cast<int64_t>(point));
  if (point == Point::begun && may_delay_) ops::delay(block_.part(kDelayAt, DType::i64, {1}));
}

Tensor StepExchange::squares(Squares of) const {
  return kept_.part(8 * kPoints + (of == Squares::own ? 0 : kSumBytes), DType::f64, {ops::kSquareSumNumbers});
}

void StepExchange::begin_squares(const Tensor& loss_factor) {
  if (!measures_squares()) return;
  kept_.part(8 * kPoints, DType::u8, {kSquareBytes}).fill_zero();
  if (loss_factor.defined()) kept_.part(8 * kPoints + 2 * kSumBytes, DType::f32, {1}).copy_from(loss_factor);
}

void StepExchange::add_squares(Squares of, const Tensor& gradients) {
  if (measures_squares()) ops::add_squares(gradients, squares(of));
}

GradientSquares StepExchange::read_squares(const std::byte* results) const {
  std::array<double, 2 * ops::kSquareSumNumbers> sums{};
  std::memcpy(sums.data(), results, sizeof sums);
  float loss_factor = 0;
  std::memcpy(&loss_factor, results + sizeof sums, sizeof loss_factor);
  return {.own = ops::rounded_square_sum(sums.data()),
          .summed = ops::rounded_square_sum(sums.data() + ops::kSquareSumNumbers),
          .loss_factor = loss_factor != 0 ? loss_factor : 1};
}

void StepExchange::publish() {
  ops::publish(kept_.part(0, DType::u8, {result_bytes(kept_rows_)}), block_.part(8, DType::i64, {1}));
}

void StepExchange::end() {
  slots_[next_slot_].done->set();
  under_way_.push_back(next_slot_);
  next_slot_ = (next_slot_ + 1) % slots_.size();
  // A CPU worker has finished the work by now.
  if (!device_.can_record()) finish_oldest();
}

void StepExchange::finish_oldest() {
  Slot& slot = slots_[under_way_.front()];
  under_way_.pop_front();
  slot.done->wait();
  const auto* in = static_cast<const std::byte*>(slot.results->data());
  std::array<int64_t, kPoints> stamps{};
  std::memcpy(stamps.data(), in, sizeof stamps);
  const auto seconds = [&](Point from, Point to) {
    return 1e-9 * static_cast<double>(stamps[static_cast<size_t>(to)] - stamps[static_cast<size_t>(from)]);
  };
  device_times_[Phase::compute] += seconds(Point::begun, Point::computed);
  device_times_[Phase::communication] += seconds(Point::computed, Point::reduced);
  device_times_[Phase::optimizer] += seconds(Point::reduced, Point::updated);
  if (stamps[static_cast<size_t>(Point::averaged)] != 0)
    device_times_[Phase::communication] += seconds(Point::updated, Point::averaged);

  int64_t rows = 0;
  for (const OutputRows& output : slot.outputs) rows += output.rows;
  const auto* losses = in + rows_at();
  const auto* hits = losses + 8 * rows;
  StepResults results{.outputs = {}, .samples = slot.samples};
  if (measures_squares()) results.squares = read_squares(in + sizeof stamps);
  for (const OutputRows& output : slot.outputs) {
    std::vector<double> of_rows(static_cast<size_t>(output.rows));
    std::vector<int32_t> correct(of_rows.size());
    if (output.rows > 0) {
      std::memcpy(of_rows.data(), losses, 8 * of_rows.size());
      std::memcpy(correct.data(), hits, 4 * correct.size());
    }
    losses += 8 * output.rows;
    hits += 4 * output.rows;
    results.outputs.push_back({.losses = std::move(of_rows),
                               .correct = std::accumulate(correct.begin(), correct.end(), int64_t{0}),
                               .counted = output.counted});
  }
  finished_.push_back(std::move(results));
}

std::vector<StepResults> StepExchange::take(bool all) {
  while (all && !under_way_.empty()) finish_oldest();
  return std::exchange(finished_, {});
}

StepResults StepExchange::take_oldest() {
  if (finished_.empty()) finish_oldest();
  StepResults oldest = std::move(finished_.front());
  finished_.erase(finished_.begin());
  return oldest;
}

PhaseTimes StepExchange::take_device_times() { return std::exchange(device_times_, {}); }

}  // namespace dptrain::parallel
