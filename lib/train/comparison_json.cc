#include <nlohmann/json.hpp>

#include "train/comparison_report.h"
#include "train/fault_spec.h"
#include "train/lost_seconds.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;

template <typename T>
ordered_json value_or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean}, {"deviation", spread->deviation}};
}

ordered_json difference_json(const std::optional<PairedDifference>& difference) {
  if (!difference) return nullptr;
  return {{"mean", difference->mean}, {"p_value", difference->p_value}, {"significant", difference->significant}};
}

ordered_json time_json(const TimeShares& time) {
  return {{"compute_s", time.compute_s},
          {"exposed_comm_s", time.exposed_comm_s},
          {"data_wait_s", time.data_wait_s},
          {"optimizer_s", time.optimizer_s},
          {"other_s", time.other_s}};
}

ordered_json lost_json(const RunFigures& first, const RunFigures& run) {
  const auto lost = lost_seconds(first, run);
  if (!lost) return nullptr;
  return {{"even_share_s", lost->even_share_s},
          {"compute_s", lost->compute_s},
          {"straggler_s", lost->straggler_s},
          {"communication_s", lost->communication_s},
          {"optimizer_s", lost->optimizer_s},
          {"data_wait_s", lost->data_wait_s},
          {"other_s", lost->other_s}};
}

ordered_json training_json(const TrainingFigures& training, const std::optional<double>& target) {
  return {{"directory", training.directory},
          {"seed", training.seed},
          {"epochs", training.epochs},
          {"seconds_per_epoch", training.seconds_per_epoch},
          {"samples_per_s", training.samples_per_s},
          {"accuracy", value_or_null(training.accuracy)},
          {"seconds_to_target", value_or_null(target ? training.seconds_to(*target) : std::nullopt)},
          {"weights_hash", training.weights_hash}};
}

ordered_json run_json(const RunFigures& first, const RunFigures& run) {
  ordered_json trainings = ordered_json::array();
  for (const TrainingFigures& training : run.trainings) trainings.push_back(training_json(training, run.target));
  return {{"run", run.run},
          {"strategy", run.strategy},
          {"devices", run.devices},
          {"seconds_per_epoch", run.seconds_per_epoch()},
          {"samples_per_s", run.samples_per_s()},
          {"speedup", speedup(first, run)},
          {"efficiency", efficiency(first, run)},
          {"accuracy", value_or_null(run.accuracy())},
          {"seconds_to_target", value_or_null(run.mean_seconds_to_target())},
          {"peak_bytes", run.peak_bytes()},
          {"device_peak_bytes", run.device_peak_bytes()},
          {"memory_imbalance", run.memory_imbalance()},
          {"comm_bytes", run.comm_bytes()},
          {"exposed_comm_s", run.exposed_comm_s()},
          {"weights_hash", run.trainings.front().weights_hash},
          {"time", time_json(run.time())},
          {"lost", lost_json(first, run)},
          {"advice", value_or_null(advice(first, run))},
          {"repeated",
           {{"seconds_per_epoch", spread_json(run.seconds())},
            {"accuracy", spread_json(run.accuracies())},
            {"seconds_difference", difference_json(seconds_difference(first, run))},
            {"accuracy_difference", difference_json(accuracy_difference(first, run))},
            {"seconds_to_target_difference", difference_json(target_difference(first, run))}}},
          {"trainings", trainings}};
}

}  // namespace

std::string ComparisonReport::json() const {
  ordered_json all = ordered_json::array(), asserted = ordered_json::array();
  for (const RunFigures& run : runs) all.push_back(run_json(runs.front(), run));
  for (const AssertionOutcome& outcome : assertions)
    asserted.push_back({{"expression", outcome.expression}, {"holds", outcome.holds}, {"sentence", outcome.sentence}});
  ordered_json differing = ordered_json::object();
  for (const DifferingKey& key : differences) differing[key.key] = key.values;
  const ordered_json document = {{"schema", 1},
                                 {"finished", finished},
                                 {"unfinished", unfinished},
                                 {"target", value_or_null(runs.front().target)},
                                 {"runs", all},
                                 {"accuracy_gap", value_or_null(accuracy_gap(runs))},
                                 {"differences", differing},
                                 {"faults", fault_texts(faults)},
                                 {"assertions", asserted}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::train
