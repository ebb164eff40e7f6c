#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "train/metrics.h"

namespace dptrain::train {

/// Detects training runs that learn nothing: the training loss stays at that of guessing, or ends far above it. Nothing
/// else would report this.
class ChanceWatch {
 public:
  /// `label_smoothing`: if it is large, a perfect model loses about as much as a guessing one, and nothing is reported.
  explicit ChanceWatch(const Dataset& trained_on, double label_smoothing = 0);

  /// The warning to show after this epoch. Call it once for each epoch, in order. It warns at the second epoch in a row
  /// that is at chance, and at the last of several such epochs. A single such epoch is reported only if it is the last,
  /// because small data may need more than one epoch: with asynchronous updates in any case, otherwise only if the loss
  /// is far above chance. The first 50 steps of synchronous updates are never reported, because their losses vary.
  std::optional<std::string> warning_after(const EpochMetrics& metrics, bool is_last);

 private:
  struct Chance {
    double loss = 0;    ///< of a model that gives all answers the same probability
    std::string among;  ///< "10 classes"
  };
  static std::optional<Chance> chance_of(const Dataset& data);

  std::optional<Chance> chance_;  ///< nothing if it isn't known
  int64_t epochs_ = 0;            ///< the number of epochs in a row that were at chance
};

}  // namespace dptrain::train
