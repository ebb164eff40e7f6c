#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "train/metrics.h"

namespace dptrain::train {

/// Watches for trainings that learn nothing, as nothing else would say so: the training loss stays that of guessing, or
/// ends far above it.
class ChanceWatch {
 public:
  /// `label_smoothing`: where it is large, who has learned everything loses about as much as who guesses, and nothing
  /// is told.
  explicit ChanceWatch(const Dataset& trained_on, double label_smoothing = 0);

  /// What to tell after this epoch, each being given once, in order: where it is the second one in a row at chance, or
  /// the last of several. One alone is told of where it is the last, as small data may not be learned in the first: of
  /// updates out of step, and else where it is far above chance, and not the first steps, which may be anywhere.
  std::optional<std::string> warning_after(const EpochMetrics& metrics, bool is_last);

 private:
  struct Chance {
    double loss = 0;    ///< of who thinks all alike
    std::string among;  ///< "10 classes"
  };
  static std::optional<Chance> chance_of(const Dataset& data);

  std::optional<Chance> chance_;  ///< nothing where it isn't known
  int64_t epochs_ = 0;            ///< in a row that were at chance
};

}  // namespace dptrain::train
