#include "train/curve_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/html_text.h"
#include "train/chart_axis.h"

namespace dptrain::train {
namespace {

// Sizes of the picture, in units of about a pixel.
constexpr double kWidth = 520, kHeight = 280, kLeft = 58, kRight = 14, kTop = 12, kBottom = 48;
constexpr double kPlotRight = kWidth - kRight, kPlotBottom = kHeight - kBottom;
/// Points closer to each other than this are drawn as one.
constexpr double kNear = 0.5;
/// A curve with more points has no markers.
constexpr size_t kMostMarkers = 30;

/// Paths relative to the marked point: circle, square, triangle, diamond, triangle upside down, plus, cross.
constexpr std::array<const char*, 7> kMarkers = {
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.6l3.4 6h-6.8z",
    "m0-3.8l3.8 3.8l-3.8 3.8l-3.8-3.8z",
    "m0 3.6l3.4-6h-6.8z",
    "m-1.1-3.5h2.2v2.4h2.4v2.2h-2.4v2.4h-2.2v-2.4h-2.4v-2.2h2.4z",
    "m-3.2-1.6l1.6-1.6l1.6 1.6l1.6-1.6l1.6 1.6l-1.6 1.6l1.6 1.6l-1.6 1.6l-1.6-1.6l-1.6 1.6l-1.6-1.6l1.6-1.6z"};

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

bool can_be_drawn(const CurvePoint& point) { return std::isfinite(point.across) && std::isfinite(point.value); }

std::string value_text(CurveChart::Values values, double value) {
  switch (values) {
    case CurveChart::Values::accuracy: return fmt::format("{:.2f} %", value);
    case CurveChart::Values::learning_rate: return fmt::format("{:.6g}", value);
    case CurveChart::Values::loss: break;
  }
  return value < 1e4 ? fmt::format("{:.4f}", value) : fmt::format("{:.3e}", value);
}

std::string place_text(CurveChart::Across across, double place) {
  return across == CurveChart::Across::epochs ? fmt::format("epoch {:.0f}", place) : fmt::format("{:.2f} s", place);
}

/// A curve in units of the picture.
struct DrawnCurve {
  const Curve* curve;
  double width;
  std::vector<CurvePoint> told;   ///< the curve's points that can be drawn
  std::vector<CurvePoint> drawn;  ///< their positions
};

/// The line through the points, without points too close to be seen, except the last one.
std::string line_of(const std::vector<CurvePoint>& drawn) {
  std::string points;
  const CurvePoint* before = nullptr;
  for (const CurvePoint& point : drawn) {
    if (before != nullptr && &point != &drawn.back() && std::abs(point.across - before->across) < kNear &&
        std::abs(point.value - before->value) < kNear)
      continue;
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", point.across, point.value);
    before = &point;
  }
  return points;
}

/// "l3", a class in the page's style.
std::string look_class(std::optional<size_t> look) { return look ? fmt::format("l{}", *look) : "behind"; }

std::string marker(size_t look, const CurvePoint& at) {
  return fmt::format("<path class=\"mark l{}\" d=\"M{:.1f} {:.1f}{}\"", look, at.across, at.value,
                     kMarkers[look % kMarkers.size()]);
}

class ChartPicture {
 public:
  explicit ChartPicture(const CurveChart& chart)
      : chart_(chart),
        looks_(std::ranges::count_if(chart.curves, [](const Curve& curve) { return curve.look.has_value(); })) {
    for (const Curve& curve : chart.curves) {
      DrawnCurve drawn{.curve = &curve, .width = curve.look ? width_of(*curve.look) : 1, .told = {}, .drawn = {}};
      for (CurvePoint point : curve.points) {
        if (!can_be_drawn(point)) continue;
        if (chart.values == CurveChart::Values::accuracy) point.value *= 100;
        across_.add(point.across);
        values_.add(point.value);
        drawn.told.push_back(point);
      }
      curves_.push_back(std::move(drawn));
    }
    // Curves without a look are drawn first, then the others from wide to narrow.
    std::ranges::stable_sort(curves_, {}, [](const DrawnCurve& curve) { return curve.curve->look; });
  }

  std::string html() {
    const bool of_epochs = chart_.across == CurveChart::Across::epochs;
    const ChartAxis across =
        of_epochs ? ChartAxis::counted(across_.least, across_.most) : ChartAxis::exact(0, across_.most);
    const ChartAxis values =
        chart_.values == CurveChart::Values::loss && span_asks_for_logarithm(values_.least, values_.most)
            ? ChartAxis::logarithmic(values_.least, values_.most)
            : ChartAxis::between_ticks(values_.least, values_.most);
    for (DrawnCurve& curve : curves_)
      for (const CurvePoint& point : curve.told)
        curve.drawn.push_back({.across = x_of(across, point.across), .value = y_of(values, point.value)});
    const char* place = of_epochs ? "epoch" : "training seconds";
    const std::string label =
        fmt::format("{} over {}, of {} run{}: from {} to {}{}", chart_.title, of_epochs ? "epochs" : "training seconds",
                    curves_.size(), curves_.size() == 1 ? "" : "s", value_text(chart_.values, values_.least),
                    value_text(chart_.values, values_.most), values.is_logarithmic() ? ", on a logarithmic axis" : "");
    return fmt::format(
               "<figure class=\"chart\">\n<figcaption>{}{}</figcaption>\n<svg role=\"img\" aria-label=\"{}\" "
               "viewBox=\"0 0 {} {}\">\n",
               html_text(chart_.title), values.is_logarithmic() ? " <small>logarithmic</small>" : "", html_text(label),
               kWidth, kHeight) +
           grid(across, values, place) + lines() + "</svg>\n</figure>\n";
  }

 private:
  /// The width of a curve. Curves often coincide, because strategies compute the same numbers.
  double width_of(size_t look) const {
    const auto last = static_cast<double>(std::max<ptrdiff_t>(looks_ - 1, 1));
    const double step = std::min(1.8, 3.6 / last);
    return 1.6 + step * std::max(static_cast<double>(looks_ - 1) - static_cast<double>(look), 0.0);
  }

  static double x_of(const ChartAxis& axis, double value) { return kLeft + (kPlotRight - kLeft) * axis.share(value); }
  static double y_of(const ChartAxis& axis, double value) {
    return kPlotBottom - (kPlotBottom - kTop) * axis.share(value);
  }

  static std::string grid(const ChartAxis& across, const ChartAxis& values, const char* place) {
    std::string lines, labels;
    for (const ChartAxis::Tick& tick : values.ticks()) {
      const double y = y_of(values, tick.value);
      lines += fmt::format("M{} {:.1f}H{}", kLeft, y, kPlotRight);
      labels += fmt::format("<text class=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLeft - 7, y + 4, tick.label);
    }
    std::string marks;
    for (const ChartAxis::Tick& tick : across.ticks()) {
      const double x = x_of(across, tick.value);
      marks += fmt::format("M{:.1f} {}v4", x, kPlotBottom);
      labels +=
          fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x, kPlotBottom + 19, tick.label);
    }
    return fmt::format(
        "<path class=\"grid\" d=\"{}\"/>\n<path class=\"axis\" d=\"M{} {}H{}{}\"/>\n<g class=\"ticks\" "
        "aria-hidden=\"true\">\n{}<text class=\"middle title\" x=\"{}\" y=\"{}\">{}</text>\n</g>\n",
        lines, kLeft, kPlotBottom, kPlotRight, marks, labels, (kLeft + kPlotRight) / 2, kHeight - 8, place);
  }

  std::string lines() const {
    std::string all;
    for (const DrawnCurve& curve : curves_)
      if (!curve.drawn.empty()) all += line(curve);
    return all;
  }

  std::string line(const DrawnCurve& curve) const {
    const std::string look = look_class(curve.curve->look);
    std::string group = fmt::format("<g><title>{}</title>", html_text(curve.curve->name));
    if (curve.drawn.size() > 1)
      group += fmt::format("<polyline class=\"line {}\" stroke-width=\"{:.2f}\" points=\"{}\"/>", look, curve.width,
                           line_of(curve.drawn));
    if (curve.curve->look && curve.drawn.size() <= kMostMarkers)
      for (size_t i = 0; i < curve.drawn.size(); ++i)
        group += fmt::format("{}><title>{}</title></path>", marker(*curve.curve->look, curve.drawn[i]),
                             html_text(point_text(curve, i)));
    else if (!curve.curve->look && curve.drawn.size() == 1)
      group += fmt::format("<circle class=\"behind dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>",
                           curve.drawn.front().across, curve.drawn.front().value);
    if (curve.curve->goes_on)
      group += fmt::format("<circle class=\"open {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\"/>", look,
                           curve.drawn.back().across, curve.drawn.back().value);
    return group + "</g>\n";
  }

  std::string point_text(const DrawnCurve& curve, size_t i) const {
    return fmt::format("{}: {}, {}", curve.curve->name, place_text(chart_.across, curve.told[i].across),
                       value_text(chart_.values, curve.told[i].value));
  }

  const CurveChart& chart_;
  ptrdiff_t looks_;  ///< the number of looks in use
  std::vector<DrawnCurve> curves_;
  Range across_, values_;
};

}  // namespace

bool CurveChart::empty() const {
  return std::ranges::none_of(curves,
                              [](const Curve& curve) { return std::ranges::any_of(curve.points, can_be_drawn); });
}

std::string CurveChart::html() const { return empty() ? "" : ChartPicture(*this).html(); }

std::string curve_sample(std::optional<size_t> look) {
  constexpr CurvePoint kMiddle = {.across = 17, .value = 7};
  return fmt::format(
      "<svg class=\"sample\" aria-hidden=\"true\" viewBox=\"0 0 34 14\"><path class=\"line {}\" stroke-width=\"{}\" "
      "d=\"M1 7H33\"/>{}</svg>",
      look_class(look), look ? 2 : 1, look ? marker(*look, kMiddle) + "/>" : "");
}

}  // namespace dptrain::train
