#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "train/metrics.h"

namespace dptrain::train {

/// The table of a training's epochs, for printing row by row. Of a table that is too wide columns are left out, the
/// least telling ones first; the epoch and the loss that is trained on always stay.
class EpochTable {
 public:
  /// In lines of at most `width` characters; `epochs` is 0 where only the number of steps is known.
  EpochTable(int64_t epochs, int width);

  std::string header() const;
  std::string row(const EpochMetrics& metrics) const;

 private:
  static constexpr size_t kColumns = 7;
  using Cells = std::array<std::string, kColumns>;

  size_t width_of(size_t column) const;
  size_t width() const;
  std::string line(const Cells& cells) const;

  int64_t epochs_;
  int shown_ = kColumns;  ///< how many of the columns are left
};

}  // namespace dptrain::train
