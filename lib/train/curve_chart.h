#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dptrain::train {

/// The number of looks for curves. Each look has its own color, dashes and marker, so that any one of these tells
/// curves apart.
inline constexpr size_t kCurveLooks = 12;

struct CurvePoint {
  double across = 0;
  double value = 0;
};

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;   ///< from left to right; numbers that aren't finite are left out
  std::optional<size_t> look = {};  ///< below kCurveLooks; a curve without a look is thin and gray, behind the others
  bool goes_on = false;             ///< the end gets a mark: more points may follow
};

/// A chart of curves.
struct CurveChart {
  enum class Across { epochs, seconds };
  enum class Values { loss, accuracy, learning_rate };  ///< accuracies are shares, shown in percent

  std::string title;
  Across across = Across::epochs;
  Values values = Values::loss;
  std::vector<Curve> curves;

  /// Whether there is a point to draw.
  bool empty() const;
  /// The chart as an HTML figure with its caption; "" if there is nothing to draw. Losses that span more than a factor
  /// of ten get a logarithmic axis. If curves coincide, the first one is the widest. Colors and dashes come from the
  /// page's style, see report_style.h.
  std::string html() const;
};

/// A short piece of a curve with this look, with its marker, for a legend.
std::string curve_sample(std::optional<size_t> look);

}  // namespace dptrain::train
