#include "parallel/device_key_value_store.h"

#include "parallel/comm_buffer.h"

namespace dptrain::parallel {

DeviceKeyValueStore::DeviceKeyValueStore(const StoreContext& context, Placement placement)
    : context_(context), placement_(placement) {}

void DeviceKeyValueStore::take_in() {
  std::vector<int64_t> elements;
  for (const StoreKey& key : keys()) elements.push_back(key.end - key.begin);
  const std::vector<int> owners = place_keys(elements, context_.communicator.size(), placement_);
  std::vector<OwnedRange> ranges;
  for (size_t i = 0; i < keys().size(); ++i)
    ranges.push_back({.begin = keys()[i].begin, .end = keys()[i].end, .owner = owners[i]});
  updates_.emplace(context_.model, context_.communicator, context_.clock,
                   OwnedUpdates::Options{.ranges = ranges,
                                         .optimizer = context_.optimizer,
                                         .clip_norm = context_.clip_norm,
                                         .observer = context_.observer});
}

std::unique_ptr<CommWork> DeviceKeyValueStore::start_sum(size_t key) {
  const OwnedRange& range = updates_->ranges()[key];
  const Tensor gradient = context_.model.gradients().window(range.begin, {range.elements()}, Layout::plain);
  return context_.communicator.start_reduce(comm_buffer(gradient), range.owner);
}

void DeviceKeyValueStore::update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) {
  updates_->update(step, loss_scale);
}

void DeviceKeyValueStore::restore(const std::vector<nn::NamedValues>& state) {
  // Every rank's model already has the weights.
  if (!state.empty()) updates_->load_state(state);
}

}  // namespace dptrain::parallel
