#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain::train {

/// Fills that parts of bars may have, each of its own color and hatching.
inline constexpr size_t kBarFills = 6;

struct BarPart {
  std::string_view name;
  double value = 0;
  std::string text;  ///< the value with its unit
  size_t fill = 0;   ///< below kBarFills
};

/// The parts one behind the other, as a picture of HTML that is as wide as its place where they add up to `whole`.
/// Parts that aren't positive are left out. Colors are those of the page's style, see report_style.h.
std::string stacked_bar(const std::vector<BarPart>& parts, double whole);

/// The hatchings that bars refer to: a page with bars has this once.
std::string bar_fills();

/// Each name behind a piece of its fill, as a list; of the parts' values nothing.
std::string bar_legend(const std::vector<BarPart>& parts);

}  // namespace dptrain::train
