#include "parallel/shared_statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/approach.h"
#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

std::string_view batch_norm_mode_name(BatchNormMode mode) {
  constexpr std::array<std::string_view, 4> kNames = {"local", "sync", "average", "first"};
  return kNames[static_cast<size_t>(mode)];
}

SharedStatistics::SharedStatistics(BatchNormMode mode, Communicator& communicator, Replica& replica)
    : mode_(mode), communicator_(communicator), replica_(replica) {
  if (shares(BatchNormMode::sync)) replica_.take_statistics_over(*this);
}

bool SharedStatistics::shares(BatchNormMode mode) const {
  return mode_ == mode && communicator_.size() > 1 && running().elements() > 0;
}

void SharedStatistics::sum(const Tensor& values) {
  const InPhase communicating(replica_.clock(), Phase::communication);
  communicator_.all_reduce(comm_buffer(values));
  // This rank's next operator may be the first of its kind. Its GPU then loads a kernel, and may wait for all work
  // under way to do so. That work must not be waiting for another GPU whose thread does the same.
  if (!is_known_) replica_.device().synchronize();
}

void SharedStatistics::begin_step(int64_t samples) {
  note_size(samples);
  if (!shares(BatchNormMode::first) || replica_.has_shards()) return;
  const InPhase communicating(replica_.clock(), Phase::communication);
  communicator_.broadcast(comm_buffer(running()), 0);
}

void SharedStatistics::end_step(const StepParts& parts, int64_t samples) {
  if (replica_.has_shards()) {
    if (communicator_.size() > 1 && running().elements() > 0) sum(running());
    return;
  }
  if (!shares(BatchNormMode::average)) return;
  int64_t own_samples = 0;
  for (const BatchPart* part : parts) own_samples += part->samples();
  const Tensor own = running();
  const Tensor weighted = Tensor::zeros(own.device(), own.shape(), {.purpose = MemoryPurpose::workspace});
  ops::approach(weighted, own, static_cast<float>(static_cast<double>(own_samples) / static_cast<double>(samples)));
  sum(weighted);
  own.copy_from(weighted);
}

std::optional<double> statistics_spread(const std::vector<RunningValues>& by_rank) {
  if (by_rank.size() < 2 || by_rank.front().empty()) return std::nullopt;
  double spread = 0;
  for (size_t tensor = 0; tensor < by_rank.front().size(); ++tensor) {
    double apart = 0, magnitude = 0;
    for (size_t i = 0; i < by_rank.front()[tensor].size(); ++i) {
      double least = by_rank.front()[tensor][i], most = least;
      for (const auto& of_rank : by_rank) {
        least = std::min(least, double{of_rank[tensor][i]});
        most = std::max(most, double{of_rank[tensor][i]});
      }
      apart = std::max(apart, most - least);
      magnitude = std::max({magnitude, std::abs(least), std::abs(most)});
    }
    if (magnitude > 0) spread = std::max(spread, apart / magnitude);
  }
  return spread;
}

}  // namespace dptrain::parallel
