#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text_table.h"

namespace dptrain::train {

/// Which classes samples are taken for, by the class that they are of. Classes count from 0.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes) : classes_(classes), counts_(static_cast<size_t>(classes * classes)) {}

  void count(int64_t label, int64_t predicted) { ++counts_[place(label, predicted)]; }

  int64_t classes() const { return classes_; }
  /// How many of class `label` were taken for class `predicted`.
  int64_t at(int64_t label, int64_t predicted) const { return counts_[place(label, predicted)]; }
  /// Of a class.
  int64_t samples(int64_t label) const;
  /// How many were taken for a class.
  int64_t predicted(int64_t predicted) const;
  /// Of all classes.
  int64_t all() const;
  /// The share of all that were taken for what they are; 0 of none.
  double accuracy() const;
  /// The share of a class's samples that were taken for it; nothing where it has none.
  std::optional<double> recall(int64_t label) const;
  /// The share of what was taken for a class that is of it; nothing where none was.
  std::optional<double> precision(int64_t label) const;
  /// The other class that most of a class's samples were taken for, the first of equals; nothing where none were.
  std::optional<int64_t> mistaken_for(int64_t label) const;

 private:
  size_t place(int64_t label, int64_t predicted) const { return static_cast<size_t>(label * classes_ + predicted); }

  int64_t classes_;
  std::vector<int64_t> counts_;  ///< by label, then by what it was taken for
};

/// A row a class; `names` are those of the classes, or empty.
std::vector<TableColumn> table_of(const ConfusionMatrix& matrix, const std::vector<std::string>& names);

}  // namespace dptrain::train
