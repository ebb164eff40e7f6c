#include "parallel/step_exchange.h"

#include <cstring>
#include <numeric>

#include "base/check.h"
#include "ops/step_results.h"

namespace dptrain::parallel {

StepExchange::StepExchange(Device& device, int steps_in_flight)
    : device_(device), slots_(static_cast<size_t>(steps_in_flight)) {
  DPTRAIN_CHECK(steps_in_flight > 0, "{} steps in flight", steps_in_flight);
}

void StepExchange::reserve(int64_t samples) {
  if (samples <= capacity_) return;
  while (!under_way_.empty()) finish_oldest();
  capacity_ = samples;
  ++generation_;
  const TensorOptions bytes{.dtype = DType::u8, .purpose = MemoryPurpose::workspace};
  block_ = Tensor::empty(device_, {kHeaderBytes + 8 * samples}, bytes);
  kept_ = Tensor::zeros(device_, {result_bytes(samples)}, bytes);
  for (Slot& slot : slots_) {
    slot.values = device_.host_memory(block_.bytes());
    slot.results = device_.host_memory(kept_.bytes());
    slot.done = device_.make_mark();
  }
}

void StepExchange::begin(const Values& values) {
  samples_ = static_cast<int64_t>(values.sample_ids.size());
  reserve(samples_);
  if (under_way_.size() == slots_.size()) finish_oldest();
  Slot& slot = slots_[next_slot_];
  slot.samples = kept_samples_ = values.keeps_results ? samples_ : 0;
  const auto rate = static_cast<float>(values.learning_rate);
  const auto epoch = static_cast<int32_t>(values.epoch), step = static_cast<int32_t>(values.step);
  const void* results = slot.results->data();
  auto* out = static_cast<std::byte*>(slot.values->data());
  std::memcpy(out, &rate, sizeof rate);
  std::memcpy(out + 4, &epoch, sizeof epoch);
  std::memcpy(out + 8, &results, sizeof results);
  std::memcpy(out + 16, &step, sizeof step);
  if (samples_ > 0) std::memcpy(out + kHeaderBytes, values.sample_ids.data(), 8 * values.sample_ids.size());
  device_.copy_from_host(block_.raw(), *slot.values, kHeaderBytes + 8 * samples_);
}

void StepExchange::keep(int64_t first, const Tensor& losses, const Tensor& correct) {
  if (losses.elements() == 0) return;
  const int64_t count = losses.elements();
  kept_.part(8 * (kPoints + first), DType::f64, {count}).copy_from(losses);
  kept_.part(8 * (kPoints + kept_samples_) + 4 * first, DType::i32, {count}).copy_from(correct);
}

void StepExchange::stamp(Point point) { ops::stamp_time(stamps(), static_cast<int64_t>(point)); }

void StepExchange::publish() {
  ops::publish(kept_.part(0, DType::u8, {result_bytes(kept_samples_)}), block_.part(8, DType::i64, {1}));
}

void StepExchange::end() {
  slots_[next_slot_].done->set();
  under_way_.push_back(next_slot_);
  next_slot_ = (next_slot_ + 1) % slots_.size();
  // A CPU worker has done it all by now.
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

  SampleResults results{.losses = std::vector<double>(static_cast<size_t>(slot.samples))};
  std::vector<int32_t> correct(results.losses.size());
  if (slot.samples > 0) {
    std::memcpy(results.losses.data(), in + sizeof stamps, 8 * results.losses.size());
    std::memcpy(correct.data(), in + sizeof stamps + 8 * results.losses.size(), 4 * correct.size());
  }
  results.correct = std::accumulate(correct.begin(), correct.end(), int64_t{0});
  finished_.push_back(std::move(results));
}

std::vector<SampleResults> StepExchange::take(bool all) {
  while (all && !under_way_.empty()) finish_oldest();
  return std::exchange(finished_, {});
}

PhaseTimes StepExchange::take_device_times() { return std::exchange(device_times_, {}); }

}  // namespace dptrain::parallel
