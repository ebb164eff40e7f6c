#pragma once

#include "parallel/key_value_store.h"
#include "parallel/owned_updates.h"

namespace dptrain::parallel {

/// A store on the ranks' devices. Each key is stored on one of them, in the weights and gradients that the device's
/// model holds anyway, and beside the optimizer's state.
class DeviceKeyValueStore final : public KeyValueStore {
 public:
  DeviceKeyValueStore(const StoreContext& context, Placement placement);

  void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) override;
  std::vector<nn::NamedValues> gather_state() override { return updates_->gather_state(); }
  void restore(const std::vector<nn::NamedValues>& state) override;
  std::vector<int64_t> held_bytes() const override { return updates_->held_bytes(); }

 private:
  void take_in() override;
  std::unique_ptr<CommWork> start_sum(size_t key) override;
  void fetch(size_t key) override { updates_->share(updates_->ranges()[key]); }

  StoreContext context_;
  Placement placement_;
  std::optional<OwnedUpdates> updates_;  ///< has one range for each key
};

}  // namespace dptrain::parallel
