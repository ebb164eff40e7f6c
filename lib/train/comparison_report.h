#pragma once

#include <string>
#include <vector>

#include "parallel/injected_fault.h"
#include "train/comparison_assertion.h"
#include "train/config_difference.h"
#include "train/run_figures.h"

namespace dptrain::train {

/// The contents of a comparison's report.
struct ComparisonReport {
  std::vector<RunFigures> runs;  ///< at least one; relative numbers refer to the first
  std::vector<DifferingKey> differences;
  std::vector<AssertionOutcome> assertions;
  std::vector<parallel::InjectedFault> faults = {};  ///< suffered by every run that has their rank
  bool finished = true;                              ///< false if a signal or a failure ended it early
  std::vector<std::string> unfinished = {};          ///< what was not trained to its end, see Comparison::unfinished

  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/compare.schema.json is its schema.
  std::string json() const;

 private:
  /// Sentences on the seconds, on what differs, on what is significant, on why runs are slow, and on the assertions.
  std::vector<std::string> sentences() const;
};

}  // namespace dptrain::train
