#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parallel/strategy.h"

namespace dptrain::train {

/// Passes calls on to another strategy. A test overrides those that it wants to observe or change.
class WrappedStrategy : public parallel::Strategy {
 public:
  explicit WrappedStrategy(std::unique_ptr<Strategy> inner) : inner_(std::move(inner)) {}

  std::vector<Device*> batch_devices() override { return inner_->batch_devices(); }
  BatchSplit batch_split() override { return inner_->batch_split(); }
  std::vector<double> measure_speeds(const Dataset& dataset, int64_t samples) override {
    return inner_->measure_speeds(dataset, samples);
  }
  void set_split(const BatchSplit& split) override { inner_->set_split(split); }
  void train_step(std::shared_ptr<const Batch> batch, const parallel::StepNumbers& numbers) override {
    inner_->train_step(std::move(batch), numbers);
  }
  std::vector<parallel::Score> take_scores(bool all) override { return inner_->take_scores(all); }
  std::optional<parallel::Score> evaluate(const Dataset& dataset, const parallel::EvaluationWatch& watch) override {
    return inner_->evaluate(dataset, watch);
  }
  std::vector<nn::NamedValues> state_dict() override { return inner_->state_dict(); }
  void for_each_state(const std::function<void(const nn::NamedValues&)>& take) override {
    inner_->for_each_state(take);
  }
  parallel::TrainingState training_state() override { return inner_->training_state(); }
  void restore(const parallel::TrainingState& state) override { inner_->restore(state); }
  std::vector<parallel::WeightDigests> weight_digests() override { return inner_->weight_digests(); }
  int ranks() const override { return inner_->ranks(); }
  int world_size() const override { return ranks(); }
  int first_rank() const override { return 0; }
  const Device& device(int rank) const override { return inner_->device(rank); }
  parallel::RankCosts take_costs(int rank) override { return inner_->take_costs(rank); }
  CommWays sum_ways() override { return inner_->sum_ways(); }
  void wait_for_steps() override { inner_->wait_for_steps(); }
  void show_steps(const parallel::ShownSteps& steps) override { inner_->show_steps(steps); }
  std::vector<std::vector<parallel::TimelineRow>> take_timelines() override { return inner_->take_timelines(); }

 private:
  std::unique_ptr<Strategy> inner_;
};

}  // namespace dptrain::train
