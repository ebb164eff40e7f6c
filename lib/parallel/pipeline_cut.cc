#include "parallel/pipeline_cut.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "parallel/interleaved_cut.h"

namespace dptrain::parallel {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

[[noreturn]] void refuse(const CutRequest& request, std::span<const std::string> units, const std::string& expected,
                         const std::string& got, const std::string& advice) {
  throw Error(ExitCode::config,
              Mistake{.where = request.where,
                      .expected = expected,
                      .got = got,
                      .advice = fmt::format("{}; the stages of the model are {}", advice, fmt::join(units, ", "))});
}

std::optional<int> number_in(const std::string& entry) {
  int value = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), value);
  return error == std::errc() && end == entry.data() + entry.size() ? std::optional(value) : std::nullopt;
}

bool all_numbers(const std::vector<std::string>& entries) {
  return std::ranges::all_of(entries, [](const std::string& entry) { return number_in(entry).has_value(); });
}

/// The first unit of each stage, then the number of units.
std::vector<int> begins_by_count(const CutRequest& request, std::span<const std::string> units) {
  std::vector<int> begins = {0};
  int64_t total = 0;
  for (const std::string& entry : request.entries) {
    const int count = *number_in(entry);
    if (count < 1)
      refuse(request, units, "expected at least one stage of the model for each stage of the pipeline", entry,
             "write 1 or more");
    total += count;
    begins.push_back(static_cast<int>(std::min<int64_t>(total, std::numeric_limits<int>::max())));
  }
  if (total != static_cast<int64_t>(units.size()))
    refuse(request, units, fmt::format("expected numbers that add up to the model's {} stages", units.size()),
           fmt::format("{} = {}", fmt::join(request.entries, " + "), total), "write other numbers");
  return begins;
}

std::vector<int> begins_by_name(const CutRequest& request, std::span<const std::string> units) {
  std::vector<int> begins;
  for (const std::string& entry : request.entries) {
    const auto found = std::ranges::find(units, entry);
    if (found == units.end()) {
      const std::string near = nearest_name(entry, units);
      refuse(request, units, "expected the name of a stage of the model, or only numbers of stages",
             fmt::format("'{}'", entry), near.empty() ? "write one of these" : fmt::format("did you mean '{}'?", near));
    }
    begins.push_back(static_cast<int>(found - units.begin()));
  }
  if (begins.front() != 0)
    refuse(request, units, fmt::format("expected a list that begins with the model's first stage, {}", units.front()),
           request.entries.front(), "begin the list with this stage");
  if (std::ranges::adjacent_find(begins, std::greater_equal<>()) != begins.end())
    refuse(request, units, "expected stages in the model's order, each at most once",
           fmt::format("{}", fmt::join(request.entries, ", ")), "list them in the model's order");
  begins.push_back(static_cast<int>(units.size()));
  return begins;
}

PipelineCut cut_at(const std::vector<int>& begins) {
  PipelineCut cut;
  for (size_t s = 0; s + 1 < begins.size(); ++s) cut.push_back({.begin = begins[s], .end = begins[s + 1]});
  return cut;
}

/// The cut whose largest cost(stage, units) is the smallest; nothing if every cut is impossible. Exact: best[s][j] is
/// the smallest largest cost of the first j units on s stages.
std::optional<PipelineCut> least_of_largest(int stages, int units,
                                            const std::function<double(int stage, nn::StageRange)>& cost) {
  const auto width = static_cast<size_t>(units) + 1;
  std::vector<std::vector<double>> best(static_cast<size_t>(stages) + 1, std::vector<double>(width, kImpossible));
  std::vector<std::vector<int>> begin_of_last(best.size(), std::vector<int>(width, -1));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s) {
    for (int end = s; end <= units; ++end) {
      double& least = best[static_cast<size_t>(s)][static_cast<size_t>(end)];
      for (int begin = s - 1; begin < end; ++begin) {
        const double before = best[static_cast<size_t>(s) - 1][static_cast<size_t>(begin)];
        if (before >= least) continue;
        const double largest = std::max(before, cost(s - 1, {.begin = begin, .end = end}));
        if (largest >= least) continue;
        least = largest;
        begin_of_last[static_cast<size_t>(s)][static_cast<size_t>(end)] = begin;
      }
    }
  }
  if (best.back().back() == kImpossible) return std::nullopt;
  std::vector<int> begins = {units};
  for (int s = stages; s > 0; --s)
    begins.insert(begins.begin(), begin_of_last[static_cast<size_t>(s)][static_cast<size_t>(begins.front())]);
  return cut_at(begins);
}

}  // namespace

std::vector<std::string> unit_names(const nn::Model& model) {
  std::vector<std::string> names;
  for (int i = 0; i < model.stage_count(); ++i) names.push_back(model.stage_name(i));
  return names;
}

void require_cut(const CutRequest& request, std::span<const std::string> units, int stages, int devices) {
  if (!request.automatic()) {
    cut_as_listed(request, units, stages);
    return;
  }
  if (static_cast<size_t>(stages) <= units.size()) return;
  const int of_device = stages / devices, fit = static_cast<int>(units.size()) / devices;
  if (of_device == 1)
    refuse(request, units, fmt::format("expected at most {} devices, as many as the model has stages", units.size()),
           fmt::format("{}", stages), "list fewer devices");
  refuse(request, units,
         fmt::format("expected at most {} stages of the pipeline, as many as the model has", units.size()),
         fmt::format("{}, {} on each of {} devices", stages, of_device, devices),
         fit > 1 ? fmt::format("write stages_per_device: {}", fit) : "write schedule: 1f1b");
}

PipelineCut cut_as_listed(const CutRequest& request, std::span<const std::string> units, int stages) {
  DPTRAIN_CHECK(request.entries.size() == static_cast<size_t>(stages), "{} entries for {} stages",
                request.entries.size(), stages);
  return cut_at(all_numbers(request.entries) ? begins_by_count(request, units) : begins_by_name(request, units));
}

UnitCost cost_of(std::span<const UnitCost> units) {
  UnitCost all{.input_bytes = units.front().input_bytes};
  for (const UnitCost& unit : units) {
    all.seconds += unit.seconds;
    all.fixed_bytes += unit.fixed_bytes;
    all.kept_bytes += unit.kept_bytes;
    all.kept_for_weights_bytes += unit.kept_for_weights_bytes;
    all.most_bytes = std::max(all.most_bytes, unit.most_bytes);
  }
  return all;
}

PipelineCut cut_by_cost(std::span<const UnitCost> units, const PipelineStep& step, int64_t limit_bytes) {
  const auto count = static_cast<int>(units.size());
  DPTRAIN_CHECK(count >= step.stages, "{} units on {} stages", count, step.stages);
  const auto of = [&](nn::StageRange range) {
    return units.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - range.begin));
  };
  std::vector<std::set<HeldMicroBatches>> held;
  for (int s = 0; s < step.stages; ++s) held.push_back(held_in(actions_of(step, step.device_of(s)), s));
  const auto bytes = [&](int stage, nn::StageRange range) {
    const UnitCost cost = cost_of(of(range));
    int64_t most_kept = 0;
    for (const auto& [whole, weights] : held[static_cast<size_t>(stage)])
      most_kept = std::max(most_kept, whole * (cost.input_bytes + cost.kept_bytes) +
                                          weights * (cost.input_bytes + cost.kept_for_weights_bytes));
    return static_cast<double>(cost.fixed_bytes + most_kept + cost.most_bytes);
  };
  const auto seconds = [&](int stage, nn::StageRange range) {
    if (limit_bytes > 0 && bytes(stage, range) > static_cast<double>(limit_bytes)) return kImpossible;
    return cost_of(of(range)).seconds;
  };
  const auto by_bytes = [&] { return *least_of_largest(step.stages, count, bytes); };
  if (step.stages_per_device > 1) {
    const auto even = [](int, nn::StageRange range) { return static_cast<double>(range.end - range.begin); };
    const auto any_seconds = [&](int, nn::StageRange range) { return cost_of(of(range)).seconds; };
    return interleaved_cut(
        units, step, limit_bytes,
        {*least_of_largest(step.stages, count, any_seconds), by_bytes(), *least_of_largest(step.stages, count, even)});
  }
  if (const auto cut = least_of_largest(step.stages, count, seconds)) return *cut;
  return by_bytes();
}

}  // namespace dptrain::parallel
