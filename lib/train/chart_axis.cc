#include "train/chart_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/digit_groups.h"

namespace dptrain::train {
namespace {

constexpr double kFewTicks = 5;
constexpr int kMostTicks = 12;   // also stops the loop if numbers are so large that adding a step doesn't change them
constexpr int kMostDecades = 6;  // decades with a tick each
constexpr int kMostDigitsBesidePowers = 5;  // powers of ten
constexpr double kLogarithmicRoom = 0.04;   // of the axis, free at each end

/// The smallest of 1, 2, 5 and 10 times a power of ten that cuts `span` into five pieces at most.
double round_step(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / kFewTicks)));
  for (const double factor : {1, 2, 5})
    if (span <= kFewTicks * factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

/// "10⁻⁵"
std::string power_of_ten(int exponent) {
  constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "10⁻" : "10";
  for (const char digit : std::to_string(std::abs(exponent))) text += kDigits[static_cast<size_t>(digit - '0')];
  return text;
}

/// A round number whose last significant digit is that of 10^`last_digit`.
std::string tick_label(double value, int last_digit, int most_digits = 7) {
  constexpr int kFewestDigits = -4;
  if (value == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  if (last_digit < kFewestDigits || exponent >= most_digits) {
    const std::string factor_text = fmt::format("{:.4g}", value / std::pow(10, exponent));
    return factor_text == "1" ? power_of_ten(exponent) : fmt::format("{}·{}", factor_text, power_of_ten(exponent));
  }
  if (last_digit < 0) return fmt::format("{:.{}f}", value, -last_digit);
  return value < 1000 ? fmt::format("{:.0f}", value) : digit_groups(value);
}

/// Whether two numbers are equal up to rounding.
bool are_the_same(double least, double most) {
  return most - least <= 1e-9 * std::max(std::abs(least), std::abs(most));
}

int last_digit_of(double step) { return static_cast<int>(std::floor(std::log10(step) + 1e-9)); }

}  // namespace

ChartAxis::ChartAxis(double begin, double end, double step) : begin_(begin), end_(end) {
  const double first = std::ceil(begin / step - 1e-9), last = end / step + 1e-9;
  for (int i = 0; i < kMostTicks && first + i <= last; ++i)
    ticks_.push_back({.value = (first + i) * step, .label = tick_label((first + i) * step, last_digit_of(step))});
}

ChartAxis ChartAxis::between_ticks(double least, double most) {
  if (are_the_same(least, most)) {
    const double room = least == 0 ? 1 : std::abs(least) / 10;
    least -= room;
    most += room;
  }
  const double step = round_step(most - least);
  return {step * std::floor(least / step + 1e-9), step * std::ceil(most / step - 1e-9), step};
}

ChartAxis ChartAxis::exact(double least, double most) {
  if (are_the_same(least, most)) most = least + (least == 0 ? 1 : std::abs(least));
  return {least, most, round_step(most - least)};
}

ChartAxis ChartAxis::counted(double least, double most) {
  if (are_the_same(least, most)) return {least - 0.5, most + 0.5, 1};
  return {least, most, std::max(round_step(most - least), 1.0)};
}

ChartAxis ChartAxis::logarithmic(double least, double most) {
  ChartAxis axis;
  const double begin = std::log10(least), end = std::log10(most);
  const double room = kLogarithmicRoom * std::max(end - begin, 0.1);
  axis.begin_ = begin - room;
  axis.end_ = end + room;
  axis.is_logarithmic_ = true;
  const double decades = axis.end_ - axis.begin_;
  const int apart = static_cast<int>(std::ceil(decades / kMostDecades));
  const bool has_ticks_between = decades <= 2;
  for (int exponent = static_cast<int>(std::floor(axis.begin_)); exponent <= axis.end_; ++exponent) {
    if (exponent % apart != 0) continue;
    for (const int factor : {1, 2, 5}) {
      if (factor > 1 && !has_ticks_between) break;
      const double value = factor * std::pow(10, exponent), place = std::log10(value);
      if (place >= axis.begin_ && place <= axis.end_)
        axis.ticks_.push_back({.value = value, .label = tick_label(value, exponent, kMostDigitsBesidePowers)});
    }
  }
  return axis;
}

double ChartAxis::share(double value) const {
  if (begin_ == end_) return 0.5;
  return ((is_logarithmic_ ? std::log10(value) : value) - begin_) / (end_ - begin_);
}

bool span_asks_for_logarithm(double least, double most) { return least > 0 && most > 10 * least; }

}  // namespace dptrain::train
