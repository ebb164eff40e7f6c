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

/// How the batch norms of replicas share their statistics. On one device all modes are the same.
enum class BatchNormMode {
  local,    ///< own batch and running statistics; the first device's running statistics are evaluated and saved
  sync,     ///< batch statistics over the samples of all devices, so running statistics are equal
  average,  ///< own batch statistics; after every step, running statistics become their mean, weighted by samples
  first,    ///< own batch statistics; before every step, the first device's running statistics are copied to all
};

inline constexpr BatchNormMode kBatchNormModes[] = {BatchNormMode::local, BatchNormMode::sync, BatchNormMode::average,
                                                    BatchNormMode::first};

/// The name in the configuration, such as "local".
std::string_view batch_norm_mode_name(BatchNormMode mode);

/// Shares one replica's batch-norm statistics with other ranks. Used by the rank's thread; every rank makes the same
/// calls.
///
/// In modes other than `local`, running statistics are shared during steps, never only when they are read. In `local`,
/// an evaluation copies the first device's to all, which changes nothing that is trained. Training therefore doesn't
/// depend on when it is evaluated or saved, and a checkpoint holds everything that is needed to continue.
class SharedStatistics final : public autograd::SumOverDevices {
 public:
  /// `communicator`: of the ranks that hold the same part of the model. In mode `sync`, the replica's training passes
  /// take their statistics over all these ranks from now on.
  SharedStatistics(BatchNormMode mode, Communicator& communicator, Replica& replica);
  SharedStatistics(const SharedStatistics&) = delete;
  SharedStatistics& operator=(const SharedStatistics&) = delete;

  /// Called before the forward passes of a step over `samples` samples of all ranks.
  void begin_step(int64_t samples);
  /// Replaces `begin_step` if replicas have the first replica's running statistics anyway.
  void note_size(int64_t samples) { is_known_ = !known_samples_.insert(samples).second; }
  /// Called after a step's passes. If replicas compute logical shards, each rank's running statistics are a part of a
  /// sum, which is added up over ranks. `parts`: of this rank; `samples`: of all ranks.
  void end_step(const StepParts& parts, int64_t samples);

  void sum(const Tensor& values) override;
  bool can_be_recorded() const override { return communicator_.can_be_recorded(DType::f32); }

 private:
  Tensor running() const { return replica_.model().running_states(); }
  bool shares(BatchNormMode mode) const;

  BatchNormMode mode_;
  Communicator& communicator_;
  Replica& replica_;
  std::set<int64_t> known_samples_;  ///< sample counts of earlier steps
  bool is_known_ = false;            ///< an earlier step had as many samples as the current one
};

/// The values of running statistics, by tensor.
using RunningValues = std::vector<std::vector<float>>;

/// How far apart the running statistics of ranks are. For each tensor: the largest difference between two ranks' values
/// of one element, divided by the largest magnitude of any value in the tensor. The result is the largest of these
/// quotients; nothing if there is only one rank or no such tensor.
std::optional<double> statistics_spread(const std::vector<RunningValues>& by_rank);

}  // namespace dptrain::parallel
