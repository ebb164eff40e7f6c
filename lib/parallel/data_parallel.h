#pragma once

#include "parallel/replicated_strategy.h"
#include "parallel/steps_under_way.h"

namespace dptrain::parallel {

/// Where DataParallel computes the loss.
enum class Criterion {
  gathered,  ///< on the output device, from all outputs, as PyTorch's nn.DataParallel is used
  parallel,  ///< on each device, from its own outputs
};

/// DataParallel as PyTorch's nn.DataParallel does it. A step has these parts:
///  1. Replicate: the first device's weights are copied to all devices.
///  2. Scatter: the batch is cut into one part for each device.
///  3. Parallel apply: every device runs forward on its part.
///  4. Gather: the outputs go to the output device (`output_rank`), which computes the loss.
///  5. The gradient of the loss is scattered, and every device runs backward.
///  6. Gradients are summed on the first device. Only the first device has an optimizer, which updates its weights.
///
/// The memory of the devices shows which device does the extra work. With a parallel criterion outputs stay on the
/// device that computed them, and no device holds another device's outputs.
///
/// With several processes each process does this over its own devices, and gradients are summed over all processes:
/// DataParallel inside a host, DDP between hosts.
class DataParallel final : public ReplicatedStrategy {
 public:
  struct Options {
    Criterion criterion = Criterion::gathered;
    int output_rank = 0;  ///< rank of the output device: its position in the process's device list
  };
  DataParallel(const StrategyContext& context, const Options& options);

  std::vector<Device*> batch_devices() override;
  BatchSplit batch_split() override;
  int first_part() override;
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;

 private:
  void share_weights(int rank) override;
  /// Only the first device keeps its weights between steps; the other devices have copies during a step.
  bool has_comparable_weights(int rank) override { return rank == 0; }
  /// Copies the weights and running statistics of the process's first device to all of its devices.
  void replicate(int rank);
  /// Sums gradients over all devices of all processes. The first device of each process gets the sum.
  void sum_gradients(int rank);
  /// A rank's end of the communicator over this process's ranks.
  Communicator& process(int rank) { return *process_[static_cast<size_t>(rank)]; }
  /// Runs a step of logical shards. Every device gets its samples from the host and computes their losses itself.
  void train_shards(std::shared_ptr<const Batch> batch, const StepNumbers& numbers);
  /// A step's samples, and how the ranks share them.
  struct Shared {
    std::shared_ptr<const Batch> batch;
    std::vector<std::vector<BatchPart>> shares = {};  ///< by micro-batch, then by rank
    StepParts all = {};                               ///< all shares, one micro-batch after the other
  };
  void step_on(int rank, const Shared& step, const StepNumbers& numbers);
  /// Ends a step on a rank whose gradients are complete: sums the gradients, and updates on the first rank.
  void reduce_and_update(int rank);
  /// Runs `transfer` on a rank's thread and counts its time as communication.
  void communicate(int rank, const std::function<void()>& transfer);
  /// Cuts a micro-batch into one share for each of the process's ranks.
  std::vector<BatchPart> shares_of(const MicroBatch& micro);
  /// Returns a rank's share of the samples in `whole`, on the rank's device.
  ModelSamples scattered(int rank, const BatchPart& whole, const BatchPart& share, const PartPlace& place);
  /// Where a rank's share of a micro-batch begins: among the rank's own shares, and among all outputs of the step.
  struct Places {
    PartPlace own;
    std::vector<int64_t> all_rows;
  };
  /// Runs forward and backward on a rank's share of a micro-batch and adds the gradients.
  void add_gradients(int rank, const BatchPart& whole, const std::vector<BatchPart>& shares, const Places& places);
  /// Gathers the outputs, computes their losses on the output device, and returns what a rank's backward starts from.
  std::vector<Tape::Root> roots_of_gathered(int rank, const std::vector<Variable>& outputs,
                                            const std::vector<BatchPart>& shares, const Places& places);
  /// Returns the gradients of all gathered outputs. Runs on the output device, which keeps the results of the losses.
  std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs, const std::vector<BatchPart>& shares,
                                   const std::vector<int64_t>& all_rows);

  Options options_;
  std::vector<int> ranks_of_processes_;  ///< number of ranks of each process
  int place_ = 0;                        ///< index of this process among all processes
  std::vector<Communicator*> process_;   ///< by rank: ends of the communicator over this process's ranks
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
