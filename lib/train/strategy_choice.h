#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dptrain::train {

/// What a trial of a strategy has measured.
struct TrialFigures {
  double seconds_per_step = 0;  ///< the median
  double samples_per_s = 0;
  double exposed_comm_s = 0;   ///< of a step, the mean over the devices
  int64_t bytes_per_step = 0;  ///< sent, summed over ranks, payload only
  int64_t peak_bytes = 0;      ///< of the device that held most
};

/// What became of a candidate.
enum class TrialVerdict {
  chosen,
  within_noise,  ///< as fast as the fastest, as far as a few steps can tell
  slower,
  failed,     ///< it can't train this experiment
  not_tried,  ///< it would train something else
};

struct StrategyTrial {
  std::string strategy;                      ///< as a configuration has it: {name: ddp, bucket_mb: 5}
  std::string split = "even";                ///< the same
  std::optional<TrialFigures> figures = {};  ///< of one that was tried and didn't fail
  TrialVerdict verdict = TrialVerdict::not_tried;
  std::string reason = {};  ///< of the verdict, a sentence without its period
};

/// The strategy that `strategy: auto` stands for, and why.
struct StrategyChoice {
  std::string strategy;
  std::string split = "even";
  std::vector<StrategyTrial> trials = {};  ///< of all candidates
};

/// Those whose samples a second are within a tenth of the most: they are worth a second look. Indices, in order.
std::vector<size_t> contenders(const std::vector<StrategyTrial>& trials);

/// Gives each trial that has figures its verdict and reason. The fastest wins; of those that are within 3 % of it,
/// which is what a few steps can't tell apart, the one whose fullest device holds least, and of those the first.
/// Returns the index of the chosen one; at least one is to have figures.
size_t choose(std::vector<StrategyTrial>& trials);

}  // namespace dptrain::train
