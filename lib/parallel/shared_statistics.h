#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "autograd/sum_over_devices.h"
#include "comm/communicator.h"
#include "parallel/replica.h"

namespace dptrain::parallel {

/// What the batch norms of replicas have to do with each other; on one device all are the same.
enum class BatchNormMode {
  local,    ///< own batch and running statistics; the first device's evaluate and are saved
  sync,     ///< batch statistics over the samples of all devices, so that running statistics are equal
  average,  ///< own batch statistics; after every step the running ones become their mean, weighted by samples
  first,    ///< own batch statistics; before every step the first device's running ones are copied to all
};

inline constexpr BatchNormMode kBatchNormModes[] = {BatchNormMode::local, BatchNormMode::sync, BatchNormMode::average,
                                                    BatchNormMode::first};

/// As a configuration names it: "local".
std::string_view batch_norm_mode_name(BatchNormMode mode);

/// A replica's statistics among those of the other ranks. Used by the rank's thread; every rank makes the same calls.
///
/// Running statistics never wait to be shared until they are read: what training goes on with depends neither on when
/// it is evaluated nor on when it is saved, and a checkpoint holds all there is to go on from.
class SharedStatistics final : public autograd::SumOverDevices {
 public:
  /// `communicator`: of the ranks that have the same part of the model. In `sync` the replica's training passes take
  /// their statistics over all of them from then on.
  SharedStatistics(BatchNormMode mode, Communicator& communicator, Replica& replica);
  SharedStatistics(const SharedStatistics&) = delete;
  SharedStatistics& operator=(const SharedStatistics&) = delete;

  /// Before the forward passes of a step over so many samples of all ranks.
  void begin_step(int64_t samples);
  /// The same where replicas have the first one's running statistics anyway.
  void note_size(int64_t samples) { is_known_ = !known_samples_.insert(samples).second; }
  /// After them. Where replicas compute logical shards, the running statistics are parts of a sum over ranks, which is
  /// added up. `parts`: this rank's of the step; `samples`: of all ranks.
  void end_step(const StepParts& parts, int64_t samples);

  void sum(const Tensor& values) override;
  bool can_be_recorded() const override { return communicator_.can_be_recorded(DType::f32); }

 private:
  Tensor running() const { return replica_.model().running_states(); }
  bool shares(BatchNormMode mode) const;

  BatchNormMode mode_;
  Communicator& communicator_;
  Replica& replica_;
  std::set<int64_t> known_samples_;  ///< of steps that have been
  bool is_known_ = false;            ///< the step under way is like one of them
};

/// The values of each tensor of running statistics.
using RunningValues = std::vector<std::vector<float>>;

/// How far apart running statistics are, given by rank: of each tensor the largest difference between two ranks' values
/// of one element, over the largest magnitude of any value in it; the largest of these. Nothing where there is only one
/// rank or no such tensor.
std::optional<double> statistics_spread(const std::vector<RunningValues>& by_rank);

}  // namespace dptrain::parallel
