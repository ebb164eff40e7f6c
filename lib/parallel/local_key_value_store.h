#pragma once

#include "device/device.h"
#include "optim/parameter_norms.h"
#include "parallel/key_value_store.h"

namespace dptrain::parallel {

/// Host memory that a store lives in, shared by its ranks' ends: a CPU worker of its own on which no rank computes.
struct StoreMemory {
  /// `counts_only`: as the ranks' devices.
  StoreMemory(int ranks, int threads, bool counts_only = false);

  std::unique_ptr<Device> device;
  Tensor weights;
  std::vector<Tensor> gradients;  ///< by rank: copies of its own. The sums are in the first
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::ParameterNorms norms;
};

/// A store in host memory: gradients of all ranks are copied there, summed and made into an update there, and weights
/// are copied back.
class LocalKeyValueStore final : public KeyValueStore {
 public:
  /// `host`: the ranks over host memory.
  LocalKeyValueStore(const StoreContext& context, Communicator& host, std::shared_ptr<StoreMemory> memory);

  void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) override;
  std::vector<nn::NamedValues> gather_state() override;
  void restore(const std::vector<nn::NamedValues>& state) override;
  /// Of the one place.
  std::vector<int64_t> held_bytes() const override;
  CommCounts counts() const override { return counts_; }

 private:
  void take_in() override;
  std::unique_ptr<CommWork> start_sum(size_t key) override;
  void fetch(size_t key) override;
  bool keeps() const { return host_.rank() == 0; }  ///< its thread does what is done once
  void read_weights();
  void update_all(const optim::OptimizerStep& step, const optim::LossScale* loss_scale);
  void count(int64_t bytes);

  StoreContext context_;
  Communicator& host_;
  std::shared_ptr<StoreMemory> memory_;
  CommCounts counts_;
};

}  // namespace dptrain::parallel
