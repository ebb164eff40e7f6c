#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/noise_bound.h"
#include "train/step_trace.h"
#include "train/stop_signal.h"
#include "train/trace_difference.h"
#include "train/verification_plan.h"

namespace dptrain::train {

/// A layer under a strategy against the same under `single`.
struct VerifiedLayer {
  LayerDifference found;
  NoiseBound allowed = {};
  bool by_design = false;  ///< it isn't meant to be equal: what it does is no fault

  /// What is all noise does only where it is no number.
  bool diverges() const;
  /// The difference over the bound: how near it is to diverging. 0 of what is all noise.
  double share() const;
};

enum class Verdict { equal, diverges, differs_by_design, not_compared };

/// "equal", "diverges", "by design", "not compared".
std::string_view verdict_name(Verdict verdict);

struct VerifiedRow {
  std::string name;
  Verdict verdict = Verdict::equal;
  std::string reason = {};  ///< why it wasn't compared
  int64_t micro_batches = 1;
  int shards = 0;                          ///< of the `single` that it was compared with, in bits; 0: none
  std::vector<VerifiedLayer> layers = {};  ///< in the order of trace_differences

  /// The layer that a fault first shows in; where there is no fault, that which first differs by design; null where
  /// none does.
  const VerifiedLayer* first_divergence() const;
  /// Of a pass the layer that is nearest to its bound, or farthest beyond; null where it has none.
  const VerifiedLayer* nearest_to_bound(ComparedPass pass) const;
  /// The layers that are all noise.
  std::vector<VerifiedLayer> all_noise() const;
};

/// Trains every row of the plan for some steps and compares it with `single` of as many micro-batches, layer by layer.
/// A layer's bound is ten times the noise of `single`: what it changes when samples are computed in another order from
/// weights that are a rounding off, each; or, where that is more, what it changes in a third order, on one thread, from
/// weights that are 256 roundings off. Another order alone isn't enough: operators add up samples in double, so that it
/// often changes nothing, while devices round what they have added up. A gradient that would be zero without rounding,
/// as that of a bias in front of a batch norm, is all noise (noise_bound.h). With shards the bound is 0. With
/// `compress` weights and later steps differ by design; the first one's forward pass, loss and gradients don't, where
/// what isn't sent counts (compression_bound). Throws what a training throws, with the row's name before its sentence;
/// 79 where `single` diverges.
class Verification {
 public:
  struct Options {
    int64_t steps = 1;
    parallel::PlantedFault planted = parallel::PlantedFault::none;
    const StopSignal* stop = nullptr;  ///< ends it before the next step
  };
  Verification(const VerificationPlan& plan, const Options& options);

  std::vector<VerifiedRow> run();

 private:
  /// What `single` computes with so many micro-batches and shards, and the bound of each layer.
  struct Reference {
    Trace trace;
    std::vector<NoiseBound> bounds;  ///< none with shards: what is compared has the same bits
  };
  const Reference& reference(const PlannedRow& row);
  std::vector<NoiseBound> noise_of(const Experiment& single, const Trace& trace) const;
  VerifiedRow verified(const PlannedRow& row);

  const VerificationPlan& plan_;
  Options options_;
  std::map<std::pair<int64_t, int>, Reference> references_;  ///< by micro-batches and shards
};

}  // namespace dptrain::train
