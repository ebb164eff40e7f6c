#include "train/strategy_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dptrain::train {
namespace {

constexpr double kContends = 0.1;
constexpr double kNoise = 0.03;

/// The name of a trial, unique in its list.
std::string name_of(const StrategyTrial& trial) {
  return trial.split == "auto" ? fmt::format("{} with split: auto", trial.strategy) : trial.strategy;
}

std::string bytes_text(int64_t bytes) {
  constexpr double kKiB = 1024, kMiB = 1024 * 1024;
  const auto number = static_cast<double>(bytes);
  if (number >= kMiB) return fmt::format("{:.1f} MiB", number / kMiB);
  return number >= kKiB ? fmt::format("{:.1f} KiB", number / kKiB) : fmt::format("{} bytes", bytes);
}

const StrategyTrial& fastest_of(const std::vector<StrategyTrial>& trials) {
  const auto speed = [](const StrategyTrial& trial) { return trial.figures ? trial.figures->samples_per_s : -1; };
  const auto fastest = std::ranges::max_element(trials, {}, speed);
  DPTRAIN_CHECK(fastest != trials.end() && fastest->figures, "no trial of {} has figures", trials.size());
  return *fastest;
}

bool is_within(const StrategyTrial& trial, const StrategyTrial& fastest, double share) {
  return trial.figures && trial.figures->samples_per_s * (1 + share) >= fastest.figures->samples_per_s;
}

std::string reason_of_winner(const StrategyTrial& winner, const StrategyTrial& fastest) {
  if (&winner == &fastest) return "the fastest";
  const int64_t spared = fastest.figures->peak_bytes - winner.figures->peak_bytes;
  if (spared == 0) return fmt::format("within noise of the fastest, {}, and listed before it", name_of(fastest));
  return fmt::format("within noise of the fastest, {}, with {} less memory on its fullest device", name_of(fastest),
                     bytes_text(spared));
}

std::string reason_of_equal(const StrategyTrial& loser, const StrategyTrial& winner) {
  const int64_t more = loser.figures->peak_bytes - winner.figures->peak_bytes;
  if (more == 0) return fmt::format("within noise of {}, which is listed before it", name_of(winner));
  return fmt::format("within noise of {}, with {} more memory on its fullest device", name_of(winner),
                     bytes_text(more));
}

}  // namespace

std::vector<size_t> contenders(const std::vector<StrategyTrial>& trials) {
  const StrategyTrial& fastest = fastest_of(trials);
  std::vector<size_t> near;
  for (size_t i = 0; i < trials.size(); ++i)
    if (is_within(trials[i], fastest, kContends)) near.push_back(i);
  return near;
}

size_t choose(std::vector<StrategyTrial>& trials) {
  const StrategyTrial& fastest = fastest_of(trials);
  const StrategyTrial* winner = &fastest;
  for (const StrategyTrial& trial : trials) {
    if (!is_within(trial, fastest, kNoise)) continue;
    const int64_t spared = winner->figures->peak_bytes - trial.figures->peak_bytes;
    if (spared > 0 || (spared == 0 && &trial < winner)) winner = &trial;
  }
  for (StrategyTrial& trial : trials) {
    if (!trial.figures) continue;
    if (&trial == winner) {
      trial.verdict = TrialVerdict::chosen;
      trial.reason = reason_of_winner(trial, fastest);
    } else if (is_within(trial, fastest, kNoise)) {
      trial.verdict = TrialVerdict::within_noise;
      trial.reason = reason_of_equal(trial, *winner);
    } else {
      trial.verdict = TrialVerdict::slower;
      trial.reason = fmt::format("{:.2f}x slower than {}",
                                 fastest.figures->samples_per_s / trial.figures->samples_per_s, name_of(fastest));
    }
  }
  return static_cast<size_t>(winner - trials.data());
}

}  // namespace dptrain::train
