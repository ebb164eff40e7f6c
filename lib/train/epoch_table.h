#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/metrics.h"

namespace dptrain::train {

/// The table of a training run's epochs, printed row by row. If it is too wide, columns are left out, the least
/// important ones first; the epoch and the training loss always stay.
class EpochTable {
 public:
  /// Makes a table with lines of at most `width` characters; `epochs` is 0 if only the number of steps is known.
  EpochTable(int64_t epochs, int width, bool has_validation = false);

  std::string header() const;
  std::string row(const EpochMetrics& metrics) const;

 private:
  struct Column;
  static const std::vector<Column>& all_columns();

  size_t width_of(const Column& column) const;
  size_t width() const;
  template <class Text>
  std::string line(Text text_of) const;

  int64_t epochs_;
  std::vector<const Column*> columns_;
};

}  // namespace dptrain::train
