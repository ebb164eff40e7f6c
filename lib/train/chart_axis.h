#pragma once

#include <string>
#include <vector>

namespace dptrain::train {

/// An axis of a chart: the range of its numbers, its ticks, and the place of each number.
class ChartAxis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  // Each function makes an axis for numbers from `least` to `most`, which may be equal.

  /// An axis that ends at ticks, so that the numbers are between them.
  static ChartAxis between_ticks(double least, double most);
  /// An axis that begins at `least` and ends at `most`.
  static ChartAxis exact(double least, double most);
  /// The same as `exact`, but with ticks only at whole numbers.
  static ChartAxis counted(double least, double most);
  /// An axis on which equal ratios are equally far apart. The numbers must be positive.
  static ChartAxis logarithmic(double least, double most);

  /// The place of `value`, from 0 at the axis's beginning to 1 at its end.
  double share(double value) const;
  /// About five ticks, at round numbers.
  const std::vector<Tick>& ticks() const { return ticks_; }
  bool is_logarithmic() const { return is_logarithmic_; }

 private:
  ChartAxis(double begin, double end, double step);
  ChartAxis() = default;

  double begin_ = 0, end_ = 1;
  bool is_logarithmic_ = false;
  std::vector<Tick> ticks_;
};

/// Whether a logarithmic axis suits numbers from `least` to `most` better: they are positive and span more than a
/// factor of ten.
bool span_asks_for_logarithm(double least, double most);

}  // namespace dptrain::train
