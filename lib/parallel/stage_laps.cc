#include "parallel/stage_laps.h"

#include "ops/step_results.h"

namespace dptrain::parallel {

StageLaps::StageLaps(Device& device, size_t stages)
    : laps_(Tensor::zeros(device, {static_cast<int64_t>(1 + kOfStage * stages)},
                          {.dtype = DType::i64, .purpose = MemoryPurpose::workspace})) {
  // The first launch of a kernel loads it, which may wait for all of the GPU's work. Launched here, it can't wait for a
  // step's messages, because no step is under way yet.
  device.enter_thread();
  begin_step();
  add(0, Of::waiting);
  laps_.fill_zero();
}

void StageLaps::begin_step() { ops::stamp_time(laps_, 0); }

void StageLaps::add(size_t stage, Of of) {
  ops::add_lap(laps_, static_cast<int64_t>(1 + kOfStage * stage + static_cast<size_t>(of)));
}

std::vector<StageLaps::Seconds> StageLaps::take() {
  std::vector<int64_t> laps(static_cast<size_t>(laps_.elements()));
  laps_.device().download(laps.data(), laps_.raw(), laps_.bytes());
  laps_.fill_zero();
  std::vector<Seconds> stages;
  for (size_t at = 1; at < laps.size(); at += kOfStage) {
    const auto seconds = [&](Of of) { return 1e-9 * static_cast<double>(laps[at + static_cast<size_t>(of)]); };
    stages.push_back({.waiting = seconds(Of::waiting),
                      .forward = seconds(Of::forward),
                      .backward = seconds(Of::backward),
                      .backward_weights = seconds(Of::backward_weights)});
  }
  return stages;
}

}  // namespace dptrain::parallel
