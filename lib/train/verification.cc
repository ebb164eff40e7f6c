#include "train/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "train/divergence.h"

namespace dptrain::train {
namespace {

constexpr double kNoiseToBound = 10;
/// What is tried may round a layer's sums alike: a few roundings of f32 are always allowed.
constexpr double kLeastNoise = 8.0 / (1 << 24);
/// Few activations are so near to zero that a rounding decides whether ReLU lets them pass; but one that does changes
/// many gradients at once. Among so many roundings there are some.
constexpr int kManyRoundings = 64;

/// Calls `work`; its error has the row's name before its sentence.
template <typename Work>
auto in_row(const std::string& name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("strategy {}: {}", name, error.what()));
  }
}

}  // namespace

double VerifiedLayer::share() const {
  const double ratio = found.difference / bound;
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

std::string_view verdict_name(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"equal", "diverges", "by design", "not compared"};
  return kNames[static_cast<size_t>(verdict)];
}

const VerifiedLayer* VerifiedRow::first_divergence() const {
  const auto first = std::ranges::find_if(layers, &VerifiedLayer::diverges);
  return first == layers.end() ? nullptr : &*first;
}

const VerifiedLayer* VerifiedRow::nearest_to_bound(ComparedPass pass) const {
  const VerifiedLayer* nearest = nullptr;
  for (const VerifiedLayer& layer : layers)
    if (layer.found.pass == pass && (nearest == nullptr || layer.share() > nearest->share())) nearest = &layer;
  return nearest;
}

Verification::Verification(const VerificationPlan& plan, const Options& options) : plan_(plan), options_(options) {}

const Verification::Reference& Verification::reference(int64_t micro_batches) {
  if (const auto known = references_.find(micro_batches); known != references_.end()) return known->second;
  Experiment single = plan_.single;
  single.accumulate = micro_batches;
  Reference made{.trace = trace_of(single, plan_.data, {.steps = options_.steps}), .bounds = {}};
  for (const StepTrace& step : made.trace.steps) require_finite(step.score, step.numbers);
  const auto allow = [&](const Experiment& experiment, const TraceOptions& options, double times) {
    const auto noise = trace_differences(trace_of(experiment, plan_.data, options), made.trace);
    made.bounds.resize(noise.size(), kNoiseToBound * kLeastNoise);
    for (size_t i = 0; i < noise.size(); ++i) made.bounds[i] = std::max(made.bounds[i], times * noise[i].difference);
  };
  allow(single, {.steps = options_.steps, .order = SampleOrder::odd_places_first, .nudge_roundings = 1}, kNoiseToBound);
  Experiment on_one_thread = single;
  on_one_thread.threads = {1};
  allow(on_one_thread, {.steps = options_.steps, .order = SampleOrder::reversed, .nudge_roundings = kManyRoundings}, 1);
  return references_.emplace(micro_batches, std::move(made)).first->second;
}

VerifiedRow Verification::verified(const PlannedRow& row) {
  if (!row.unfit.empty()) return {.name = row.name, .verdict = Verdict::not_compared, .reason = row.unfit};
  VerifiedRow result{.name = row.name, .micro_batches = row.micro_batches};
  const Reference& single = reference(row.micro_batches);
  const Trace trace = in_row(row.name, [&] {
    return trace_of(row.experiment, plan_.data, {.steps = options_.steps, .planted = options_.planted});
  });
  const auto differences = trace_differences(trace, single.trace);
  for (size_t i = 0; i < differences.size(); ++i)
    result.layers.push_back({.found = differences[i], .bound = single.bounds[i]});
  if (row.differs_by_design)
    result.verdict = Verdict::differs_by_design;
  else if (result.first_divergence() != nullptr)
    result.verdict = Verdict::diverges;
  return result;
}

std::vector<VerifiedRow> Verification::run() {
  std::vector<VerifiedRow> rows;
  for (const PlannedRow& row : plan_.rows) rows.push_back(verified(row));
  return rows;
}

}  // namespace dptrain::train
