#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain::train {

/// The number of fills for parts of bars, each with its own color and hatching.
inline constexpr size_t kBarFills = 6;

struct BarPart {
  std::string_view name;
  double value = 0;
  std::string text;  ///< the value with its unit
  size_t fill = 0;   ///< below kBarFills
};

/// The parts side by side, as an HTML picture that has its full width if they add up to `whole`. Parts that aren't
/// positive are left out. Colors come from the page's style, see report_style.h.
std::string stacked_bar(const std::vector<BarPart>& parts, double whole);

/// The hatchings that bars refer to; a page with bars needs them once.
std::string bar_fills();

/// A list of the parts' names, each after a sample of its fill, without values.
std::string bar_legend(const std::vector<BarPart>& parts);

}  // namespace dptrain::train
