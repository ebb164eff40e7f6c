#pragma once

#include <string_view>

namespace dptrain::train {

/// The style sheet of a report: light or dark as the reader's screen is, light on paper. Charts and bars have their
/// colors from it: those of curves are "l0" to "l11", see kCurveLooks, of parts of bars "f0" to "f5", see kBarFills.
std::string_view report_style();

}  // namespace dptrain::train
