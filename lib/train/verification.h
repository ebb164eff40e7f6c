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

/// A layer under a strategy, compared with the same layer under `single`.
struct VerifiedLayer {
  LayerDifference found;
  NoiseBound allowed = {};
  bool by_design = false;  ///< a difference is intended and no fault

  /// Whether it differs by more than its bound. A layer that is all noise only diverges if it is NaN.
  bool diverges() const;
  /// The difference over the bound, which shows how near the layer is to diverging. 0 for a layer that is all noise,
  /// infinity if the difference is NaN.
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
  int shards = 0;                          ///< shards of the `single` that it must match bit for bit; 0: none
  std::vector<VerifiedLayer> layers = {};  ///< in the order of trace_differences

  /// The layer in which a fault shows first. If there is no fault, the first layer that differs by design; null if none
  /// differs.
  const VerifiedLayer* first_divergence() const;
  /// The layer of a pass with the largest share of its bound; null if the pass has none.
  const VerifiedLayer* nearest_to_bound(ComparedPass pass) const;
  /// The layers that are all noise.
  std::vector<VerifiedLayer> all_noise() const;
};

/// Trains every row of the plan for some steps and compares it, layer by layer, with `single` of as many micro-batches.
/// Throws what a training run throws, with the row's name before its sentence; 79 if `single` diverges.
///
/// A layer's bound follows from the noise of `single` (noise_bound.h). It is ten times the change when samples are
/// computed in another order and each weight is one rounding off. If it is larger, the change in a third order, on one
/// thread and with weights 256 roundings off, is the bound. Another order alone isn't enough: operators sum over
/// samples in double, so it often changes nothing, while devices round their sums. A gradient that would be zero
/// without rounding, such as that of a bias before a batch norm, is all noise.
///
/// With shards the bound is 0. With `compress`, weights and later steps differ by design. The first step's forward
/// pass, loss and gradients don't; gradients that aren't sent yet count as sent (compression_bound).
class Verification {
 public:
  struct Options {
    int64_t steps = 1;
    parallel::PlantedFault planted = parallel::PlantedFault::none;
    const StopSignal* stop = nullptr;  ///< stops before the next step
  };
  Verification(const VerificationPlan& plan, const Options& options);

  std::vector<VerifiedRow> run();

 private:
  /// The results of `single` with given micro-batches and shards, and the bound of each layer.
  struct Reference {
    Trace trace;
    std::vector<NoiseBound> bounds;  ///< empty with shards, where results must match bit for bit
  };
  const Reference& reference(const PlannedRow& row);
  std::vector<NoiseBound> noise_of(const Experiment& single, const Trace& trace) const;
  VerifiedRow verified(const PlannedRow& row);

  const VerificationPlan& plan_;
  Options options_;
  std::map<std::pair<int64_t, int>, Reference> references_;  ///< by micro-batches and shards
};

}  // namespace dptrain::train
