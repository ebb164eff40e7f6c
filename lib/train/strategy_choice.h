#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dptrain::train {

/// The measurements of a strategy's trial.
struct TrialFigures {
  double seconds_per_step = 0;  ///< the median
  double samples_per_s = 0;
  double exposed_comm_s = 0;   ///< per step, the mean over the devices
  int64_t bytes_per_step = 0;  ///< sent, summed over ranks, payload only
  int64_t peak_bytes = 0;      ///< of the device that held most
};

/// The result for a candidate.
enum class TrialVerdict {
  chosen,
  within_noise,  ///< as fast as the fastest, as far as a few steps can show
  slower,
  failed,     ///< it can't train this experiment
  not_tried,  ///< it would train something different
};

struct StrategyTrial {
  std::string strategy;                      ///< in the configuration's form: {name: ddp, bucket_mb: 5}
  std::string split = "even";                ///< in the configuration's form
  std::optional<TrialFigures> figures = {};  ///< set for a trial that ran and didn't fail
  TrialVerdict verdict = TrialVerdict::not_tried;
  std::string reason = {};  ///< the reason for the verdict, a sentence without its full stop
};

/// The choice that `strategy: auto` made, and why.
struct StrategyChoice {
  std::string strategy;
  std::string split = "even";
  std::vector<StrategyTrial> trials = {};  ///< for all candidates
};

/// Indices of the trials whose samples per second are within a tenth of the fastest's, in order. They are worth a
/// second measurement.
std::vector<size_t> contenders(const std::vector<StrategyTrial>& trials);

/// Gives each trial that has figures its verdict and reason. The fastest wins, unless others are within 3 %, which a
/// few steps can't distinguish. Then the one whose fullest device holds least wins, and the first of equal ones.
/// Returns the index of the chosen trial. At least one trial must have figures.
size_t choose(std::vector<StrategyTrial>& trials);

}  // namespace dptrain::train
