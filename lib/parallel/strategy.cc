#include "parallel/strategy.h"

#include <algorithm>

namespace dptrain::parallel {

double Score::mean_loss() const {
  double loss = 0;
  for (const OutputScore& output : outputs) loss += output.mean_loss();
  return loss;
}

Score& Score::operator+=(const Score& other) {
  outputs.resize(std::max(outputs.size(), other.outputs.size()));
  for (size_t k = 0; k < other.outputs.size(); ++k) {
    outputs[k].loss_sum += other.outputs[k].loss_sum;
    outputs[k].correct += other.outputs[k].correct;
    outputs[k].counted += other.outputs[k].counted;
  }
  samples += other.samples;
  return *this;
}

int64_t evaluation_block(const Dataset& dataset, DeviceKind kind) {
  const int64_t on_cpu = dynamic_cast<const TextDataset*>(&dataset) != nullptr ? 8 : 64;
  return kind == DeviceKind::cuda ? 8 * on_cpu : on_cpu;
}

RankCosts& RankCosts::operator+=(const RankCosts& later) {
  for (size_t i = 0; i < times.seconds.size(); ++i) times.seconds[i] += later.times.seconds[i];
  samples += later.samples;
  graph_steps += later.graph_steps;
  skipped_steps += later.skipped_steps;
  if (later.peak_bytes > peak_bytes) {
    peak_bytes = later.peak_bytes;
    memory_at_peak = later.memory_at_peak;
  }
  communication += later.communication;
  return *this;
}

}  // namespace dptrain::parallel
