#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text_table.h"

namespace dptrain::train {

/// Counts samples by their class and by their predicted class. Classes count from 0.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes) : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

  void count(int64_t label, int64_t predicted) { ++counts_[place(label, predicted)]; }

  int64_t classes() const { return classes_; }
  /// The number of samples of class `label` that were predicted as class `predicted`.
  int64_t at(int64_t label, int64_t predicted) const { return counts_[place(label, predicted)]; }
  /// The number of samples of a class.
  int64_t samples(int64_t label) const;
  /// The number of samples that were predicted as a class.
  int64_t predicted(int64_t predicted) const;
  /// The number of all samples.
  int64_t all() const;
  /// The share of all samples whose prediction is right; 0 if there are no samples.
  double accuracy() const;
  /// The share of a class's samples that were predicted right; nothing if the class has no samples.
  std::optional<double> recall(int64_t label) const;
  /// The share of the samples predicted as a class that belong to it; nothing if none were predicted as it.
  std::optional<double> precision(int64_t label) const;
  /// The wrong class that most of a class's samples were predicted as, the first one if several are equal; nothing if
  /// none were wrong.
  std::optional<int64_t> mistaken_for(int64_t label) const;

 private:
  size_t place(int64_t label, int64_t predicted) const { return static_cast<size_t>(label * classes_ + predicted); }

  int64_t classes_;
  std::vector<int64_t> counts_;  ///< by label, then by predicted class
};

/// A table with one row per class; `names` are the class names, or empty.
std::vector<TableColumn> table_of(const ConfusionMatrix& matrix, const std::vector<std::string>& names);

}  // namespace dptrain::train
