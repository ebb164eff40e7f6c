#pragma once

#include <string>
#include <vector>

namespace dptrain::train {

/// An axis of a chart: which numbers it has, at which of them it is marked, and where they lie.
class ChartAxis {
 public:
  struct Tick {
    double value;
    std::string label;
  };

  // Each of numbers from `least` to `most`, which may be the same.

  /// Ends at ticks, so that the numbers lie between them.
  static ChartAxis between_ticks(double least, double most);
  /// Begins at `least` and ends at `most`.
  static ChartAxis exact(double least, double most);
  /// The same, with ticks at whole numbers alone.
  static ChartAxis counted(double least, double most);
  /// Equal ratios are equally far apart. Of positive numbers.
  static ChartAxis logarithmic(double least, double most);

  /// Where `value` lies, from 0 at the axis's beginning to 1 at its end.
  double share(double value) const;
  /// About five, at round numbers.
  const std::vector<Tick>& ticks() const { return ticks_; }
  bool is_logarithmic() const { return is_logarithmic_; }

 private:
  ChartAxis(double begin, double end, double step);
  ChartAxis() = default;

  double begin_ = 0, end_ = 1;
  bool is_logarithmic_ = false;
  std::vector<Tick> ticks_;
};

/// Whether numbers from `least` to `most` are better told apart on a logarithmic axis: positive ones that span more
/// than a factor of ten.
bool span_asks_for_logarithm(double least, double most);

}  // namespace dptrain::train
