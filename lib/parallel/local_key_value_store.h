#pragma once

#include "device/device.h"
#include "optim/parameter_norms.h"
#include "parallel/key_value_store.h"

namespace dptrain::parallel {

/// Host memory of a store, shared by the ends of all its ranks. It belongs to a CPU device of its own, on which no rank
/// computes.
struct StoreMemory {
  /// `counts_only`: set if the ranks' devices only count; see DeviceOptions.
  StoreMemory(int ranks, int threads, bool counts_only = false);

  std::unique_ptr<Device> device;
  Tensor weights;
  std::vector<Tensor> gradients;  ///< by rank: copies of its gradients; rank 0's become the sums
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::ParameterNorms norms;
};

/// A store in host memory. The gradients of all ranks are copied there, summed, and used for the update. The weights
/// are copied back.
class LocalKeyValueStore final : public KeyValueStore {
 public:
  /// `host`: the communicator of the ranks over host memory.
  LocalKeyValueStore(const StoreContext& context, Communicator& host, std::shared_ptr<StoreMemory> memory);

  void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) override;
  std::vector<nn::NamedValues> gather_state() override;
  void restore(const std::vector<nn::NamedValues>& state) override;
  /// Bytes held in the store's one place.
  std::vector<int64_t> held_bytes() const override;
  CommCounts counts() const override { return counts_; }

 private:
  void take_in() override;
  std::unique_ptr<CommWork> start_sum(size_t key) override;
  void fetch(size_t key) override;
  /// Whether this rank's thread does the work that is done once for all ranks.
  bool keeps() const { return host_.rank() == 0; }
  void read_weights();
  void update_all(const optim::OptimizerStep& step, const optim::LossScale* loss_scale);
  void count(int64_t bytes);

  StoreContext context_;
  Communicator& host_;
  std::shared_ptr<StoreMemory> memory_;
  CommCounts counts_;
};

}  // namespace dptrain::parallel
