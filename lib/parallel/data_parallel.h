#pragma once

#include "parallel/replicated_strategy.h"
#include "parallel/steps_under_way.h"

namespace dptrain::parallel {

/// Where DataParallel computes the loss.
enum class Criterion {
  gathered,  ///< on the output device, of all outputs, as PyTorch's nn.DataParallel is used
  parallel,  ///< on each device, of its own outputs
};

/// DataParallel as PyTorch's nn.DataParallel does it: in every step the first device's weights are copied to all
/// (replicate), the batch is cut (scatter), every device runs forward (parallel apply), the outputs are gathered on
/// `output_device`, where the loss is computed; its gradient is cut again, every device runs backward, and the
/// gradients are summed on the first device, which alone has an optimizer. The memory of the devices shows who does the
/// extra work. With a parallel criterion outputs stay where they are, and no device holds those of others.
///
/// Of several processes each does that over its own devices, and gradients are summed over all: DataParallel inside a
/// host, DDP between hosts.
class DataParallel final : public ReplicatedStrategy {
 public:
  struct Options {
    Criterion criterion = Criterion::gathered;
    int output_rank = 0;  ///< where outputs are gathered: a position in the process's device list
  };
  DataParallel(const StrategyContext& context, const Options& options);

  std::vector<Device*> batch_devices() override;
  BatchSplit batch_split() override;
  int first_part() override;
  void train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) override;

 private:
  void share_weights(int rank) override;
  /// All others have a copy for the length of a step.
  bool has_comparable_weights(int rank) override { return rank == 0; }
  /// Makes the weights and running statistics of the process's first device those of all of its devices.
  void replicate(int rank);
  /// Sums gradients over all devices of all processes: on the first one of each.
  void sum_gradients(int rank);
  /// A rank's end of the communicator of the process's ranks.
  Communicator& process(int rank) { return *process_[static_cast<size_t>(rank)]; }
  /// A step of logical shards, whose samples come to every device from the host, and whose losses are computed there.
  void train_shards(std::shared_ptr<const Batch> batch, const StepNumbers& numbers);
  /// A step's samples and how the ranks share them.
  struct Shared {
    std::shared_ptr<const Batch> batch;
    std::vector<std::vector<BatchPart>> shares = {};  ///< of each micro-batch, by rank
    StepParts all = {};                               ///< the shares, one micro-batch after the other
  };
  void step_on(int rank, const Shared& step, const StepNumbers& numbers);
  /// The end of a step on a rank, whose gradients are complete.
  void reduce_and_update(int rank);
  /// Does `transfer` on a rank's thread, which counts as communication.
  void communicate(int rank, const std::function<void()>& transfer);
  /// The share of each of the process's ranks of a micro-batch.
  std::vector<BatchPart> shares_of(const MicroBatch& micro);
  /// The part of `whole`'s samples that a rank computes, on its device.
  ModelSamples scattered(int rank, const BatchPart& whole, const BatchPart& share, const PartPlace& place);
  /// Where a rank's share of a micro-batch begins: among its own shares, and among all of the step.
  struct Places {
    PartPlace own;
    std::vector<int64_t> all_rows;
  };
  /// Adds the gradients of a rank's share of a micro-batch.
  void add_gradients(int rank, const BatchPart& whole, const std::vector<BatchPart>& shares, const Places& places);
  /// What backward begins from on a rank, by the losses of all outputs, which are gathered.
  std::vector<Tape::Root> roots_of_gathered(int rank, const std::vector<Variable>& outputs,
                                            const std::vector<BatchPart>& shares, const Places& places);
  /// The gradients of all gathered outputs on the output device, whose losses' results are kept there.
  std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs, const std::vector<BatchPart>& shares,
                                   const std::vector<int64_t>& all_rows);

  Options options_;
  std::vector<int> ranks_of_processes_;  ///< how many each has
  int place_ = 0;                        ///< of this process among them
  std::vector<Communicator*> process_;   ///< by rank
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
