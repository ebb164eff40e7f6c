#include "parallel/weight_units.h"

#include <algorithm>

namespace dptrain::parallel {
namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;
constexpr double kAutomaticShare = 1.0 / 16;
constexpr int64_t kAlignElements = 16;

/// Whether another stage uses one of this stage's parameters [first, end) under another name.
bool has_tied(const nn::Model& model, int stage, int first, int end) {
  return std::ranges::any_of(model.tied_names(), [&](const nn::Model::TiedName& tied) {
    return tied.stage != stage && !tied.parameter->is_frozen() && tied.parameter->index() >= first &&
           tied.parameter->index() < end;
  });
}

int64_t part_of(int64_t elements, int ranks) {
  const int64_t blocks = (elements + kAlignElements - 1) / kAlignElements;
  return (blocks + ranks - 1) / ranks * kAlignElements;
}

}  // namespace

OwnedRange WeightUnit::owned_by(int rank) const {
  const auto cut = [&](int at) { return std::min(run.begin + at * part, run.end); };
  return {.begin = cut(rank), .end = cut(rank + 1), .owner = rank};
}

std::vector<WeightUnit> plan_weight_units(const nn::Model& model, const WeightUnitOptions& options) {
  const int64_t all_bytes = model.elements() * dtype_bytes(DType::f32);
  const int64_t most_bytes = static_cast<int64_t>(
      options.unit_mb > 0 ? options.unit_mb * kBytesPerMb : kAutomaticShare * static_cast<double>(all_bytes));
  std::vector<WeightUnit> units;
  for (int stage = 0; stage < model.stage_count(); ++stage) {
    const auto [first, end] = model.parameters_of_stage(stage);
    if (first == end) continue;
    const nn::ParameterRun run{.first_parameter = first,
                               .end_parameter = end,
                               .begin = model.offset(*model.parameters()[static_cast<size_t>(first)]),
                               .end = model.end_offset(*model.parameters()[static_cast<size_t>(end) - 1])};
    const bool is_tied = has_tied(model, stage, first, end);
    if (!units.empty() && !is_tied && !units.back().is_tied &&
        (run.end - units.back().run.begin) * dtype_bytes(DType::f32) <= most_bytes) {
      units.back().run.end_parameter = run.end_parameter;
      units.back().run.end = run.end;
    } else {
      units.push_back({.run = run, .is_tied = is_tied});
    }
  }
  int64_t own = 0;
  for (WeightUnit& unit : units) {
    unit.part = part_of(unit.run.end - unit.run.begin, options.ranks);
    unit.run.padding = options.ranks * unit.part - (unit.run.end - unit.run.begin);
    unit.own_begin = own;
    own += unit.part;
  }
  return units;
}

int64_t own_elements(const std::vector<WeightUnit>& units) {
  return units.empty() ? 0 : units.back().own_begin + units.back().part;
}

}  // namespace dptrain::parallel
