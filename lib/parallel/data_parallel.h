#pragma once

#include <memory>
#include <vector>

#include "parallel/pass_agreements.h"
#include "parallel/replicated_strategy.h"
#include "parallel/scattered_batch.h"
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
/// device that computed them, and no device holds another device's outputs. What a GPU does between two exchanges is
/// recorded; see PassRecorder.
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
  PassRecorder& passes(int rank) { return *passes_[static_cast<size_t>(rank)]; }
  bool computes_all_losses(int rank) const {
    return options_.criterion == Criterion::gathered && rank == options_.output_rank;
  }
  /// Runs a step of logical shards. Every device gets its samples from the host and computes their losses itself.
  void train_shards(std::shared_ptr<const Batch> batch, const StepNumbers& numbers);
  void step_on(int rank, const ScatteredBatch& step, const StepNumbers& numbers);
  /// Gives a rank's device the work of a step, or rehearses that.
  void give_step(int rank, const ScatteredBatch& step, const ScatteredParts& parts);
  /// Ends a step on a rank whose gradients are complete: sums the gradients, and updates on the first rank.
  void reduce_and_update(int rank);
  /// Runs `transfer` on a rank's thread and counts its time as communication. In a rehearsal nothing is transferred.
  void communicate(int rank, const std::function<void()>& transfer);

  /// A rank's passes over its share of a micro-batch.
  struct SharePasses {
    int rank;
    const ScatteredBatch::MicroBatch& micro;
    const ScatteredParts::MicroBatch& at;
    bool are_last;  ///< of the step
    bool compute;   ///< there are samples, or batch norms whose statistics are shared with ranks that have samples
    Tape tape;
    std::vector<Variable> outputs = {};

    const BatchPart& share() const { return micro.shares[static_cast<size_t>(rank)]; }
    size_t output_count() const { return share().targets.size(); }
  };
  /// Runs forward and backward, and adds the gradients.
  void add_gradients(SharePasses& own);
  /// Gets the images of the share from the first rank; undefined for text.
  Tensor receive_images(SharePasses& own);
  /// Runs forward. Returns the targets of the outputs if the rank has them.
  std::vector<Tensor> forward(SharePasses& own, const Tensor& images);
  void backward(SharePasses& own, std::vector<Tape::Root> roots);
  /// Runs forward, and gathers the outputs. Returns those of all ranks, by output, on the output device.
  std::vector<Tensor> gather_outputs(SharePasses& own, const Tensor& images);
  /// Computes the losses of all outputs on the output device, and scatters their gradients. Returns those of the
  /// rank's own outputs.
  std::vector<Tensor> scatter_gradients(SharePasses& own, std::vector<Tensor> gathered);
  /// Returns the gradients of all gathered outputs. Runs on the output device, which keeps the results of the losses.
  std::vector<Tensor> gradients_of(SharePasses& own, const std::vector<Tensor>& gathered);

  Options options_;
  std::vector<int> ranks_of_processes_;                ///< number of ranks of each process
  int place_ = 0;                                      ///< index of this process among all processes
  std::vector<Communicator*> process_;                 ///< by rank: ends of the communicator over this process's ranks
  std::vector<std::unique_ptr<PassRecorder>> passes_;  ///< by rank
  std::vector<char> has_stepped_;                      ///< by rank
  PassAgreements agreements_;
  StepsUnderWay steps_;
};

}  // namespace dptrain::parallel
