#include "train/operator_times.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/median.h"
#include "data/batch_loader.h"
#include "device/operator_log.h"
#include "train/strategy_context.h"
#include "train/trial_training.h"

namespace dptrain::train {
namespace {

/// The operators of several steps, grouped by operands.
class Totals {
 public:
  void add_step(const std::vector<OperatorCost>& costs) {
    for (auto& [key, total] : totals_) total.seconds.push_back(0);
    for (const OperatorCost& cost : costs) {
      if (cost.inside) continue;
      Total& total = totals_[{cost.name, cost.operands, cost.way}];
      total.seconds.resize(static_cast<size_t>(steps_) + 1);
      total.seconds.back() += cost.seconds;
      ++total.calls;
      total.flops += cost.flops;
      total.bytes += cost.bytes;
    }
    ++steps_;
  }
  /// The operators of one step, the longest first.
  std::vector<OperatorTime> of_a_step() const {
    std::vector<OperatorTime> times;
    for (const auto& [key, total] : totals_) {
      const auto& [name, operands, way] = key;
      times.push_back({.name = name,
                       .operands = operands,
                       .way = way,
                       .calls = total.calls / steps_,
                       .seconds = median(total.seconds),
                       .flops = total.flops / static_cast<double>(steps_),
                       .bytes = total.bytes / steps_});
    }
    std::ranges::stable_sort(times, std::greater(), &OperatorTime::seconds);
    return times;
  }

 private:
  struct Total {
    std::vector<double> seconds;  ///< by step
    int64_t calls = 0;
    double flops = 0;
    int64_t bytes = 0;
  };

  std::map<std::tuple<std::string, std::string, std::string>, Total> totals_;
  int64_t steps_ = 0;
};

}  // namespace

double DeviceOperators::operators_s() const {
  return std::accumulate(operators.begin(), operators.end(), 0.0,
                         [](double sum, const OperatorTime& time) { return sum + time.seconds; });
}

DeviceOperators measure_operators(const Experiment& experiment, const Datasets& data,
                                  const OperatorTimesOptions& options) {
  DPTRAIN_CHECK(experiment.devices.size() == 1 && experiment.strategy.name == "single", "operators of {} on {} devices",
                experiment.strategy.name, experiment.devices.size());
  require_trainable(experiment, *data.train);
  parallel::StrategyContext context = strategy_context(experiment, *data.train);
  context.team.times_operators = true;
  const auto strategy = experiment.strategy.make(context);
  // The loader prepares batches with operators of its own. Once it is gone, only operators of the step are logged.
  auto loader = std::make_unique<BatchLoader>(data.train, loader_options(experiment, *strategy));
  loader->start_epoch(1);
  const std::shared_ptr<const Batch> batch = loader->next();
  loader.reset();

  DeviceOperators found{.device = experiment.devices.front(),
                        .threads = experiment.threads.front(),
                        .samples = batch->samples,
                        .operators = {}};
  OperatorLog& log = *strategy->device(0).operator_log();
  Totals totals;
  std::vector<double> step_seconds;
  for (int step = 1; step <= kWarmUpSteps + options.steps; ++step) {
    if (options.stopped && options.stopped()) return found;
    log.clear();
    const auto begun = Clock::now();
    strategy->train_step(batch, {.step = step, .epoch = 1, .learning_rate = experiment.learning_rate});
    strategy->take_scores(true);
    if (step <= kWarmUpSteps) continue;
    step_seconds.push_back(seconds_since(begun));
    totals.add_step(log.costs());
  }
  found.step_s = median(step_seconds);
  found.operators = totals.of_a_step();
  return found;
}

}  // namespace dptrain::train
