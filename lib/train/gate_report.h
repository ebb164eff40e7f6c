#pragma once

#include <string>
#include <vector>

#include "train/blessing.h"

namespace dptrain::train {

/// The comparison of a training run's first steps with blessed ones.
struct GateReport {
  const Blessing& blessed;
  const Blessing& now;  ///< without bounds
  std::string file;     ///< of `blessed`

  /// The result for one item that was compared.
  struct Finding {
    enum class Verdict { equal, within, less, other_bits, differs, not_compared };
    std::string what;     ///< "loss of step 3"
    std::string blessed;  ///< "2.30259"
    std::string now;
    Verdict verdict = Verdict::equal;
    /// Describes what differs, or why the item wasn't compared.
    std::string sentence = {};
  };
  /// Compares rates and samples, losses, bytes sent, memory and weights.
  /// - Losses may be off by their bounds. The reported loss is the first one beyond its bound, else the one nearest to
  ///   its bound.
  /// - Bytes sent must be equal. They are compared only if the number of devices, the strategy and the instruction set
  ///   are the same, because memory layouts depend on these.
  /// - Memory may be one percent more. It is compared only if devices and threads are the same as well.
  /// - Weights with other bits are reported, but are no failure.
  std::vector<Finding> findings() const;
  /// The differences in the configuration, "learning_rate 0.1 -> 0.05"; "" if there are none.
  std::string changes() const;

  /// One sentence for each item that differs. The first sentence also names the changes in the configuration. Empty:
  /// the gate is open.
  std::vector<std::string> failures() const;
  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/gate.schema.json is its schema.
  std::string json() const;
};

}  // namespace dptrain::train
