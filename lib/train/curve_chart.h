#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dptrain::train {

/// Looks that curves may have, each of its own color, dashes and marker, so that they are told apart by any of these.
inline constexpr size_t kCurveLooks = 12;

struct CurvePoint {
  double across = 0;
  double value = 0;
};

struct Curve {
  std::string name;
  std::vector<CurvePoint> points;   ///< from left to right; numbers that aren't finite are left out
  std::optional<size_t> look = {};  ///< below kCurveLooks; one without a look is thin and gray, behind the others
  bool goes_on = false;             ///< its end is marked: more may come
};

/// A chart of curves.
struct CurveChart {
  enum class Across { epochs, seconds };
  enum class Values { loss, accuracy, learning_rate };  ///< of accuracy shares, shown in percent

  std::string title;
  Across across = Across::epochs;
  Values values = Values::loss;
  std::vector<Curve> curves;

  /// Whether there is a point to draw.
  bool empty() const;
  /// A figure of HTML with its caption; "" where there is nothing to draw. Losses that span more than a factor of ten
  /// have a logarithmic axis. The first of curves that fall together is the widest. Colors and dashes are those of the
  /// page's style, see report_style.h.
  std::string html() const;
};

/// A piece of such a line with its marker, for a legend.
std::string curve_sample(std::optional<size_t> look);

}  // namespace dptrain::train
