#pragma once

#include <string>
#include <vector>

#include "train/blessing.h"

namespace dptrain::train {

/// The first steps of a training, held against those that were blessed.
struct GateReport {
  const Blessing& blessed;
  const Blessing& now;  ///< without bounds
  std::string file;     ///< of `blessed`

  /// What was looked at.
  struct Finding {
    enum class Verdict { equal, within, less, other_bits, differs, not_compared };
    std::string what;     ///< "loss of step 3"
    std::string blessed;  ///< "2.30259"
    std::string now;
    Verdict verdict = Verdict::equal;
    /// Of what differs what is told of it; of what wasn't compared why.
    std::string sentence = {};
  };
  /// Rates and samples, losses, bytes sent, memory and weights. Losses may be as far off as their bounds say, the loss
  /// that is told of being the first that is farther, else the nearest to its bound. What is sent is compared of as
  /// many devices under the same strategy with the same instructions, by which layouts go, and has to be equal; memory
  /// where devices and threads are the same as well, and may be a hundredth more. Other bits of weights are told of and
  /// are no fault.
  std::vector<Finding> findings() const;
  /// "learning_rate 0.1 -> 0.05"; "" where the configuration is the same.
  std::string changes() const;

  /// A sentence for each that differs, the first with what has changed in the configuration. Empty: the gate is open.
  std::vector<std::string> failures() const;
  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/gate.schema.json is its schema.
  std::string json() const;
};

}  // namespace dptrain::train
