#include "train/verified_cut.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace dptrain::train {
namespace {

/// The first of each stage's things, if `count` things are dealt out evenly.
std::vector<int> even_begins(int count, int stages) {
  std::vector<int> begins;
  for (int s = 0; s < stages; ++s) begins.push_back(s * count / stages);
  return begins;
}

std::vector<int> counts_of(const std::vector<int>& begins, int units) {
  std::vector<int> counts;
  for (size_t s = 0; s < begins.size(); ++s)
    counts.push_back((s + 1 < begins.size() ? begins[s + 1] : units) - begins[s]);
  return counts;
}

}  // namespace

std::vector<int> verified_cut(const std::vector<bool>& has_parameters, int stages) {
  const int units = static_cast<int>(has_parameters.size());
  DPTRAIN_CHECK(stages > 0 && stages <= units, "{} units on {} stages", units, stages);
  const std::vector<int> even = counts_of(even_begins(units, stages), units);
  std::vector<int> with_parameters;
  for (int unit = 0; unit < units; ++unit)
    if (has_parameters[static_cast<size_t>(unit)]) with_parameters.push_back(unit);
  auto begin = has_parameters.begin();
  const bool all_have = std::ranges::all_of(even, [&](int count) {
    const auto stage = begin;
    begin += count;
    return std::find(stage, begin, true) != begin;
  });
  if (all_have || std::ssize(with_parameters) < stages) return even;
  std::vector<int> begins = even_begins(static_cast<int>(with_parameters.size()), stages);
  for (int& at : begins) at = with_parameters[static_cast<size_t>(at)];
  begins.front() = 0;
  return counts_of(begins, units);
}

}  // namespace dptrain::train
