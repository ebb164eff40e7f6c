#pragma once

#include <string_view>

namespace dptrain::train {

/// The style sheet of a report: light or dark like the reader's screen, light on paper. It defines the colors of charts
/// and bars: "l0" to "l11" for curves, see kCurveLooks, and "f0" to "f5" for parts of bars, see kBarFills.
std::string_view report_style();

}  // namespace dptrain::train
