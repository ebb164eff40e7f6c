#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/step_trace.h"
#include "train/trace_difference.h"
#include "train/verification_plan.h"

namespace dptrain::train {

/// A layer under a strategy against the same under `single`.
struct VerifiedLayer {
  LayerDifference found;
  double bound = 0;

  bool diverges() const { return !(found.difference <= bound); }
  /// The difference over the bound.
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
  std::vector<VerifiedLayer> layers = {};  ///< in the order of trace_differences

  /// The layer that a fault first shows in; null where none diverges.
  const VerifiedLayer* first_divergence() const;
  /// Of a pass the layer that is nearest to its bound, or farthest beyond; null where it has none.
  const VerifiedLayer* nearest_to_bound(ComparedPass pass) const;
};

/// Trains every row of the plan for some steps and compares it with `single` of as many micro-batches, layer by layer.
/// A layer's bound is ten times the noise of `single`: what it changes when samples are computed in another order from
/// weights that are a rounding off, each; or, where that is more, what it changes in a third order, on one thread, from
/// weights that are 64 roundings off. Another order alone isn't enough: operators add up samples in double, so that it
/// often changes nothing, while devices round what they have added up. And a gradient that would be zero without
/// rounding, as that of a bias in front of a batch norm, is all noise. Throws what a training throws, with the row's
/// name before its sentence; 79 where `single` diverges.
class Verification {
 public:
  struct Options {
    int64_t steps = 1;
    parallel::PlantedFault planted = parallel::PlantedFault::none;
  };
  Verification(const VerificationPlan& plan, const Options& options);

  std::vector<VerifiedRow> run();

 private:
  /// What `single` computes with so many micro-batches, and the bound of each layer.
  struct Reference {
    Trace trace;
    std::vector<double> bounds;
  };
  const Reference& reference(int64_t micro_batches);
  VerifiedRow verified(const PlannedRow& row);

  const VerificationPlan& plan_;
  Options options_;
  std::map<int64_t, Reference> references_;  ///< by micro-batches
};

}  // namespace dptrain::train
