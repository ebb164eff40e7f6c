#include "train/stacked_bar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/html_text.h"

namespace dptrain::train {
namespace {

constexpr int kBarHeight = 16;

/// Hatchings over the color, in a square of six: nothing, strokes, dots, strokes the other way, lines, a lattice.
constexpr std::array<const char*, kBarFills> kHatchings = {"",
                                                           "M-1 1l2-2M0 6l6-6M5 7l2-2",
                                                           "M1.5 1.5h1.6v1.6h-1.6zM4.5 4.5h1.6v1.6h-1.6z",
                                                           "M-1 5l2 2M0 0l6 6M5-1l2 2",
                                                           "M2 0v6M5 0v6",
                                                           "M0 3h6M3 0v6"};

std::string filled(size_t fill, const std::string& place) {
  return fmt::format("<rect fill=\"url(#fill{})\" {}", fill, place);
}

}  // namespace

std::string stacked_bar(const std::vector<BarPart>& parts, double whole) {
  std::string pieces;
  std::vector<std::string> told;
  double begin = 0;
  for (const BarPart& part : parts) {
    if (!(part.value > 0) || !(whole > 0)) continue;
    const double width = 100 * part.value / whole;
    const std::string text = html_text(fmt::format("{} {}", part.name, part.text));
    pieces += filled(part.fill, fmt::format("x=\"{:.2f}%\" width=\"{:.2f}%\" height=\"{}\"><title>{}</title></rect>",
                                            begin, width, kBarHeight, text));
    begin += width;
    told.push_back(text);
  }
  return fmt::format("<svg class=\"bar\" role=\"img\" aria-label=\"{}\" width=\"100%\" height=\"{}\">{}</svg>",
                     told.empty() ? "nothing" : fmt::format("{}", fmt::join(told, ", ")), kBarHeight, pieces);
}

std::string bar_fills() {
  std::string patterns;
  for (size_t fill = 0; fill < kBarFills; ++fill)
    patterns += fmt::format(
        "<pattern id=\"fill{0}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><rect class=\"f{0}\" "
        "width=\"6\" height=\"6\"/>{1}</pattern>\n",
        fill, *kHatchings[fill] == '\0' ? "" : fmt::format("<path class=\"hatching\" d=\"{}\"/>", kHatchings[fill]));
  return "<svg class=\"fills\" aria-hidden=\"true\" width=\"0\" height=\"0\">\n<defs>\n" + patterns +
         "</defs>\n</svg>\n";
}

std::string bar_legend(const std::vector<BarPart>& parts) {
  std::string items;
  for (const BarPart& part : parts)
    items += fmt::format("<li><svg aria-hidden=\"true\" width=\"14\" height=\"14\">{}</svg>{}</li>\n",
                         filled(part.fill, "width=\"14\" height=\"14\"/>"), html_text(part.name));
  return "<ul class=\"legend\">\n" + items + "</ul>\n";
}

}  // namespace dptrain::train
