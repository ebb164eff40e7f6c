#include "plan/operator_estimates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

namespace dptrain::plan {
namespace {

/// Sums over several operators.
struct Ratio {
  double measured = 0;
  double by_figures = 0;

  double value_or(double otherwise) const { return by_figures > 0 ? measured / by_figures : otherwise; }
};

/// All numbers in the shapes "[64, 1, 28, 28] [20, 1, 5, 5]".
std::vector<int64_t> extents_of(std::string_view operands) {
  std::vector<int64_t> extents;
  const char* const end = operands.data() + operands.size();
  for (const char* at = operands.data(); at != end;) {
    int64_t extent = 0;
    const auto [after, error] = std::from_chars(at, end, extent);
    if (error == std::errc()) extents.push_back(extent);
    at = error == std::errc() ? after : at + 1;
  }
  return extents;
}

/// The number of extents that differ; all of them if the two have different numbers of extents.
size_t differing_extents(std::string_view a, std::string_view b) {
  const std::vector<int64_t> of_a = extents_of(a), of_b = extents_of(b);
  if (of_a.size() != of_b.size()) return std::max(of_a.size(), of_b.size());
  return of_a.size() - static_cast<size_t>(
                           std::inner_product(of_a.begin(), of_a.end(), of_b.begin(), 0, std::plus(), std::equal_to()));
}

}  // namespace

OperatorEstimates::OperatorEstimates(const DeviceFigures& figures, Precision precision,
                                     const MeasuredOperators& measured)
    : figures_(figures), precision_(precision), beside_s_(measured.beside_s) {
  Ratio products, memory, all;
  for (const auto& [call, count] : measured.calls) {
    const auto times = static_cast<double>(count);
    Measured& alike = by_name_[call.name][call.operands];
    alike.count += times;
    alike.seconds += (call.seconds - alike.seconds) * times / alike.count;
    alike.by_figures = by_figures(call);
    for (Ratio* ratio : {&all, call.flops > 0 ? &products : &memory}) {
      ratio->measured += call.seconds * times;
      ratio->by_figures += alike.by_figures * times;
    }
  }
  products_factor_ = products.value_or(all.value_or(1));
  memory_factor_ = memory.value_or(all.value_or(1));
}

double OperatorEstimates::size_ratio(double expected, const Measured& measured) {
  // An operator without inputs and results has no size.
  return expected > 0 && measured.by_figures > 0 ? expected / measured.by_figures : 1;
}

OperatorEstimates::Estimate OperatorEstimates::estimate(const OperatorCost& cost) const {
  const double expected = by_figures(cost);
  const auto name = by_name_.find(cost.name);
  if (name == by_name_.end())
    return {.seconds = expected * (cost.flops > 0 ? products_factor_ : memory_factor_), .basis = Basis::figures};
  const auto& measured = name->second;
  if (const auto same = measured.find(cost.operands); same != measured.end())
    return {.seconds = same->second.seconds, .basis = Basis::same_operands};
  // The nearest in shape, for instance with another number of samples. If several are equally near, the nearest in
  // size: small operators waste more of a device than large ones.
  const auto distance = [&](const auto& entry) {
    return std::pair(differing_extents(cost.operands, entry.first),
                     std::abs(std::log(size_ratio(expected, entry.second))));
  };
  const Measured& nearest = std::ranges::min_element(measured, {}, distance)->second;
  return {.seconds = nearest.seconds * size_ratio(expected, nearest), .basis = Basis::same_operator};
}

EstimateShares shares_of(const OperatorEstimates& estimates, const std::vector<OperatorCost>& operators) {
  EstimateShares shares;
  double all = 0;
  for (const OperatorCost& cost : operators) {
    const auto [seconds, basis] = estimates.estimate(cost);
    using Basis = OperatorEstimates::Basis;
    (basis == Basis::same_operands   ? shares.same_operands
     : basis == Basis::same_operator ? shares.same_operator
                                     : shares.figures) += seconds;
    all += seconds;
  }
  if (all > 0)
    for (double* share : {&shares.same_operands, &shares.same_operator, &shares.figures}) *share /= all;
  return shares;
}

}  // namespace dptrain::plan
