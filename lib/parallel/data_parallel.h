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
  /// Adds the gradients of a rank's share of a micro-batch, before which the step has `first` samples.
  void add_gradients(int rank, const BatchPart& whole, int64_t first, double scale);
  /// The loss of all gathered logits on the output device, whose results are kept there; returns their gradient.
  Tensor loss_of(const Tensor& logits, const Tensor& labels, int64_t first, double scale);

  int output_rank_;
};

}  // namespace dptrain::parallel
