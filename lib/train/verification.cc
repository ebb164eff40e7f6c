#include "train/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "train/divergence.h"

namespace dptrain::train {
namespace {

using Method = parallel::CompressionOptions::Method;

/// Few activations are so close to zero that one rounding decides whether ReLU passes them, but one such activation
/// changes many gradients at once. With this many roundings there are some.
constexpr int kManyRoundings = 256;

/// How far gradients may be off beyond the noise, if gradients that aren't sent yet count as sent. With error feedback
/// only the summation loses anything. Without it, each rank's part and the sum are rounded, to 2^-9 (bf16) or 2^-11
/// (fp16) of themselves, which is more of the sum if parts cancel. The factor 16 allows for that.
double compression_bound(Method method) {
  constexpr double kByAddingUp = 1e-5;
  constexpr double kRoundings = 16;
  switch (method) {
    case Method::none: return 0;
    case Method::bf16: return kRoundings * 0x1p-9;
    case Method::fp16: return kRoundings * 0x1p-11;
    case Method::powersgd:
    case Method::two_bit: return kByAddingUp;
  }
  return 0;
}

void allow_for_compression(Method method, VerifiedLayer& layer) {
  const LayerDifference& found = layer.found;
  if (found.step > 1 || found.pass == ComparedPass::weights)
    layer.by_design = true;
  else if (found.pass == ComparedPass::backward)
    layer.allowed.bound += compression_bound(method);
}

Verdict verdict_of(const VerifiedRow& row) {
  const VerifiedLayer* first = row.first_divergence();
  if (first != nullptr && !first->by_design) return Verdict::diverges;
  return std::ranges::any_of(row.layers, &VerifiedLayer::by_design) ? Verdict::differs_by_design : Verdict::equal;
}

}  // namespace

bool VerifiedLayer::diverges() const {
  return std::isnan(found.difference) || (!allowed.all_noise && found.difference > allowed.bound);
}

double VerifiedLayer::share() const {
  if (std::isnan(found.difference)) return std::numeric_limits<double>::infinity();
  return allowed.all_noise || found.difference == 0 ? 0 : found.difference / allowed.bound;
}

std::string_view verdict_name(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"equal", "diverges", "by design", "not compared"};
  return kNames[static_cast<size_t>(verdict)];
}

const VerifiedLayer* VerifiedRow::first_divergence() const {
  const VerifiedLayer* by_design = nullptr;
  for (const VerifiedLayer& layer : layers) {
    if (!layer.diverges()) continue;
    if (!layer.by_design) return &layer;
    if (by_design == nullptr) by_design = &layer;
  }
  return by_design;
}

const VerifiedLayer* VerifiedRow::nearest_to_bound(ComparedPass pass) const {
  const VerifiedLayer* nearest = nullptr;
  for (const VerifiedLayer& layer : layers)
    if (layer.found.pass == pass && (nearest == nullptr || layer.share() > nearest->share())) nearest = &layer;
  return nearest;
}

std::vector<VerifiedLayer> VerifiedRow::all_noise() const {
  std::vector<VerifiedLayer> found;
  std::ranges::copy_if(layers, std::back_inserter(found), [](const auto& layer) { return layer.allowed.all_noise; });
  return found;
}

Verification::Verification(const VerificationPlan& plan, const Options& options) : plan_(plan), options_(options) {}

std::vector<NoiseBound> Verification::noise_of(const Experiment& single, const Trace& trace) const {
  const auto noise = [&](const Experiment& experiment, SampleOrder order, int roundings) {
    const TraceOptions options{
        .steps = options_.steps, .order = order, .nudge_roundings = roundings, .stop = options_.stop};
    return trace_differences(trace_of(experiment, plan_.data, options), trace);
  };
  Experiment on_one_thread = single;
  on_one_thread.threads = {1};
  const auto of_a_rounding = noise(single, SampleOrder::odd_places_first, 1);
  const auto of_many = noise(on_one_thread, SampleOrder::reversed, kManyRoundings);
  std::vector<NoiseBound> bounds;
  for (size_t i = 0; i < of_many.size(); ++i)
    bounds.push_back(noise_bound(of_a_rounding[i].difference, of_many[i].difference));
  allow_for_flips(of_many, bounds);
  return bounds;
}

const Verification::Reference& Verification::reference(const PlannedRow& row) {
  const std::pair key(row.micro_batches, row.shards);
  if (const auto known = references_.find(key); known != references_.end()) return known->second;
  Experiment single = plan_.single;
  single.accumulate = row.micro_batches;
  single.shards = row.shards;
  Reference made{.trace = trace_of(single, plan_.data, {.steps = options_.steps, .stop = options_.stop}), .bounds = {}};
  for (const StepTrace& step : made.trace.steps) require_finite(step.score, step.numbers);
  if (row.shards == 0) made.bounds = noise_of(single, made.trace);
  return references_.emplace(key, std::move(made)).first->second;
}

VerifiedRow Verification::verified(const PlannedRow& row) {
  if (!row.unfit.empty()) return {.name = row.name, .verdict = Verdict::not_compared, .reason = row.unfit};
  VerifiedRow result{.name = row.name, .micro_batches = row.micro_batches, .shards = row.shards};
  const Reference& single = reference(row);
  const Trace trace = with_prefix("strategy " + row.name, [&] {
    return trace_of(row.experiment, plan_.data,
                    {.steps = options_.steps,
                     .planted = options_.planted,
                     .unsent = row.compression != Method::none,
                     .stop = options_.stop});
  });
  const auto differences = trace_differences(trace, single.trace);
  for (size_t i = 0; i < differences.size(); ++i) {
    VerifiedLayer layer{.found = differences[i], .allowed = single.bounds.empty() ? NoiseBound() : single.bounds[i]};
    layer.by_design = row.differs_by_design;
    if (row.compression != Method::none) allow_for_compression(row.compression, layer);
    result.layers.push_back(layer);
  }
  result.verdict = verdict_of(result);
  return result;
}

std::vector<VerifiedRow> Verification::run() {
  std::vector<VerifiedRow> rows;
  for (const PlannedRow& row : plan_.rows) {
    try {
      rows.push_back(verified(row));
    } catch (const TraceStopped&) {
      break;
    }
  }
  return rows;
}

}  // namespace dptrain::train
