#include "train/run_figures.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/median.h"

namespace dptrain::train {
namespace {

constexpr std::array kShares = {&TimeShares::compute_s, &TimeShares::exposed_comm_s, &TimeShares::data_wait_s,
                                &TimeShares::optimizer_s, &TimeShares::other_s};

/// All whole epochs except the first, or the only epochs that there are.
std::vector<const EpochMetrics*> epochs_that_count(std::span<const EpochMetrics> epochs) {
  int64_t whole = 0;
  for (const EpochMetrics& epoch : epochs) whole = std::max(whole, epoch.train.score.samples);
  std::vector<const EpochMetrics*> counting;
  for (const EpochMetrics& epoch : epochs)
    if (epoch.train.score.samples == whole) counting.push_back(&epoch);
  if (counting.size() > 1) counting.erase(counting.begin());
  return counting;
}

/// The middle epoch by seconds, or for an even number the two middle ones, whose mean is the median.
std::vector<const EpochMetrics*> middle_of(std::vector<const EpochMetrics*> epochs) {
  std::ranges::stable_sort(epochs, {}, [](const EpochMetrics* epoch) { return epoch->train.seconds; });
  const auto middle = epochs.begin() + static_cast<std::ptrdiff_t>(epochs.size() / 2);
  return {epochs.size() % 2 == 1 ? middle : middle - 1, middle + 1};
}

/// Sets the peak memory of each device over all epochs, the largest peak, and its ratio to the smallest.
void count_memory(std::span<const EpochMetrics> epochs, TrainingFigures& figures) {
  std::vector<int64_t> peaks(epochs.front().devices.size(), 0);
  for (const EpochMetrics& epoch : epochs)
    for (size_t rank = 0; rank < peaks.size(); ++rank)
      peaks[rank] = std::max(peaks[rank], epoch.devices[rank].peak_bytes);
  const auto [least, most] = std::ranges::minmax(peaks);
  figures.peak_bytes = most;
  figures.device_peak_bytes = peaks;
  figures.memory_imbalance = least > 0 ? static_cast<double>(most) / static_cast<double>(least) : 1;
}

template <typename Figure>
double mean_of(const std::vector<TrainingFigures>& trainings, Figure figure) {
  std::vector<double> values;
  for (const TrainingFigures& training : trainings) values.push_back(figure(training));
  return spread_of(values).mean;
}

std::vector<double> all_seconds(const RunFigures& run) {
  std::vector<double> values;
  for (const TrainingFigures& training : run.trainings) values.push_back(training.seconds_per_epoch);
  return values;
}

/// The seconds of `run`'s trainings, scaled to the number of samples that `first` has per epoch.
std::vector<double> seconds_beside(const RunFigures& first, const RunFigures& run) {
  std::vector<double> seconds = all_seconds(run);
  if (!are_cut_otherwise(first, run)) return seconds;
  const double scale = static_cast<double>(first.trainings.front().samples) /
                       static_cast<double>(std::max<int64_t>(run.trainings.front().samples, 1));
  for (double& value : seconds) value *= scale;
  return seconds;
}

/// The accuracy of every training; empty if a training has none.
std::vector<double> all_accuracies(const RunFigures& run) {
  std::vector<double> values;
  for (const TrainingFigures& training : run.trainings)
    if (training.accuracy) values.push_back(*training.accuracy);
  return values.size() == run.trainings.size() ? values : std::vector<double>();
}

/// The paired difference. A comparison that was stopped may have one training more of one run than of the other.
std::optional<PairedDifference> difference(std::vector<double> first, std::vector<double> second) {
  const size_t pairs = std::min(first.size(), second.size());
  if (pairs < 2) return std::nullopt;
  first.resize(pairs);
  second.resize(pairs);
  return paired_difference(first, second);
}

}  // namespace

TrainingFigures training_figures(std::span<const EpochMetrics> epochs, int64_t data_samples) {
  DPTRAIN_CHECK(!epochs.empty(), "a training without an epoch has no figures");
  const auto counting = epochs_that_count(epochs);
  const auto median_of = [&](const auto& figure) {
    std::vector<double> values;
    for (const EpochMetrics* epoch : counting) values.push_back(figure(*epoch));
    return median(values);
  };
  TrainingFigures figures;
  figures.epochs = epochs.back().epoch;
  figures.seconds_per_epoch = median_of([](const EpochMetrics& epoch) { return epoch.train.seconds; });
  figures.samples = counting.front()->train.score.samples;
  figures.cut_short = figures.samples < data_samples;
  figures.samples_per_s = median_of([](const EpochMetrics& epoch) { return epoch.train.samples_per_s(); });
  // From the same epochs, so that the parts add up to the seconds.
  const auto middle = middle_of(counting);
  for (const EpochMetrics* epoch : middle) {
    const double weight = 1 / static_cast<double>(middle.size());
    for (double TimeShares::*share : kShares) figures.time.*share += weight * (epoch->time.*share);
    const Imbalance imbalance = imbalance_of(*epoch);
    figures.imbalance.compute_s += weight * imbalance.compute_s;
    figures.imbalance.wait_s += weight * imbalance.wait_s;
  }
  figures.comm_bytes = median_of([](const EpochMetrics& epoch) { return static_cast<double>(epoch.comm_bytes); });
  double seconds = 0;
  for (const EpochMetrics& epoch : epochs) {
    seconds += epoch.train.seconds;
    if (!epoch.test) continue;
    figures.accuracy = epoch.test->score.accuracy();
    figures.evaluations.push_back({.seconds = seconds, .accuracy = *figures.accuracy});
  }
  count_memory(epochs, figures);
  figures.straggler = counting.back()->straggler;
  figures.weights_hash = epochs.back().weights_hash;
  return figures;
}

std::optional<double> TrainingFigures::seconds_to(double target) const {
  const auto reached = std::ranges::find_if(
      evaluations, [target](const Evaluation& evaluation) { return evaluation.accuracy >= target; });
  return reached == evaluations.end() ? std::nullopt : std::optional(reached->seconds);
}

double RunFigures::samples_per_s() const {
  return mean_of(trainings, [](const TrainingFigures& training) { return training.samples_per_s; });
}

double RunFigures::exposed_comm_s() const { return time().exposed_comm_s; }

double RunFigures::comm_bytes() const {
  return mean_of(trainings, [](const TrainingFigures& training) { return training.comm_bytes; });
}

TimeShares RunFigures::time() const {
  TimeShares mean;
  for (double TimeShares::*share : kShares)
    mean.*share = mean_of(trainings, [share](const TrainingFigures& training) { return training.time.*share; });
  return mean;
}

Imbalance RunFigures::imbalance() const {
  return {.compute_s = mean_of(trainings, [](const TrainingFigures& training) { return training.imbalance.compute_s; }),
          .wait_s = mean_of(trainings, [](const TrainingFigures& training) { return training.imbalance.wait_s; })};
}

int64_t RunFigures::peak_bytes() const {
  return std::ranges::max_element(trainings, {}, &TrainingFigures::peak_bytes)->peak_bytes;
}

std::vector<int64_t> RunFigures::device_peak_bytes() const {
  std::vector<int64_t> most = trainings.front().device_peak_bytes;
  for (const TrainingFigures& training : trainings)
    std::ranges::transform(most, training.device_peak_bytes, most.begin(), std::ranges::max);
  return most;
}

double RunFigures::memory_imbalance() const {
  return std::ranges::max_element(trainings, {}, &TrainingFigures::memory_imbalance)->memory_imbalance;
}

Spread RunFigures::seconds() const { return spread_of(all_seconds(*this)); }

std::optional<Spread> RunFigures::accuracies() const {
  const auto values = all_accuracies(*this);
  return values.empty() ? std::nullopt : std::optional(spread_of(values));
}

std::optional<double> RunFigures::accuracy() const {
  const auto spread = accuracies();
  return spread ? std::optional(spread->mean) : std::nullopt;
}

std::vector<double> RunFigures::seconds_to_target() const {
  std::vector<double> values;
  for (const TrainingFigures& training : trainings)
    if (const auto seconds = target ? training.seconds_to(*target) : std::nullopt) values.push_back(*seconds);
  return values;
}

std::optional<double> RunFigures::mean_seconds_to_target() const {
  const std::vector<double> values = seconds_to_target();
  return values.size() == trainings.size() ? std::optional(spread_of(values).mean) : std::nullopt;
}

bool are_cut_otherwise(const RunFigures& first, const RunFigures& run) {
  const TrainingFigures &a = first.trainings.front(), &b = run.trainings.front();
  return (a.cut_short || b.cut_short) && a.samples != b.samples;
}

double speedup(const RunFigures& first, const RunFigures& run) {
  const double seconds = spread_of(seconds_beside(first, run)).mean;
  return seconds > 0 ? first.seconds_per_epoch() / seconds : 0;
}

double efficiency(const RunFigures& first, const RunFigures& run) {
  return speedup(first, run) * static_cast<double>(first.devices.size()) / static_cast<double>(run.devices.size());
}

std::optional<double> accuracy_gap(std::span<const RunFigures> runs) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const RunFigures& run : runs) {
    const auto accuracy = run.accuracy();
    if (!accuracy) return std::nullopt;
    least = std::min(least, *accuracy);
    most = std::max(most, *accuracy);
  }
  return most - least;
}

std::optional<PairedDifference> seconds_difference(const RunFigures& first, const RunFigures& run) {
  return difference(all_seconds(first), seconds_beside(first, run));
}

std::optional<PairedDifference> accuracy_difference(const RunFigures& first, const RunFigures& run) {
  return difference(all_accuracies(first), all_accuracies(run));
}

std::optional<PairedDifference> target_difference(const RunFigures& first, const RunFigures& run) {
  if (!first.mean_seconds_to_target() || !run.mean_seconds_to_target()) return std::nullopt;
  return difference(first.seconds_to_target(), run.seconds_to_target());
}

}  // namespace dptrain::train
