#pragma once

#include "parallel/replicated_strategy.h"

namespace dptrain::parallel {

/// DataParallel as PyTorch's nn.DataParallel does it: in every step the first device's weights are copied to all
/// (replicate), the batch is cut (scatter), every device runs forward (parallel apply), the outputs are gathered on
/// `output_device`, where the loss is computed; its gradient is cut again, every device runs backward, and the
/// gradients are summed on the first device, which alone has an optimizer. The memory of the devices shows who does the
/// extra work.
class DataParallel final : public ReplicatedStrategy {
 public:
  /// `output_rank`: the position of the output device in the device list.
  DataParallel(const StrategyContext& context, int output_rank);

  std::vector<Device*> batch_devices() override { return {&team().device(0)}; }
  void train_step(const Batch& batch, const StepNumbers& numbers) override;

 private:
  void share_weights(int rank) override;
  /// The samples of a micro-batch that a rank computes: [first, second).
  std::pair<int64_t, int64_t> share_of(int rank, int64_t samples);
  /// Does `transfer` on a rank's thread, which counts as communication.
  void communicate(int rank, const std::function<void()>& transfer);
  /// Every rank's share of a micro-batch.
  std::vector<BatchPart> shares_of(const BatchPart& whole);
  /// The part of `whole`'s samples that a rank computes, on its device.
  Replica::Samples scattered(int rank, const BatchPart& whole, const BatchPart& share, const Replica::Place& place);
  /// Adds the gradients of a rank's share of a micro-batch. `places`: where it begins among the rank's own shares, and
  /// among all of the step.
  struct Places {
    Replica::Place own;
    std::vector<int64_t> all_rows;
  };
  void add_gradients(int rank, const BatchPart& whole, const std::vector<BatchPart>& shares, const Places& places);
  /// The gradients of all gathered outputs on the output device, whose losses' results are kept there.
  std::vector<Tensor> gradients_of(const std::vector<Tensor>& outputs, const std::vector<BatchPart>& shares,
                                   const std::vector<int64_t>& all_rows);

  int output_rank_;
};

}  // namespace dptrain::parallel
