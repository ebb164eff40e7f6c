#include "train/lost_seconds.h"

namespace dptrain::train {
namespace {

/// The samples of an epoch of `run` over those of an epoch of `first`.
double samples_beside(const RunFigures& first, const RunFigures& run) {
  if (!are_cut_otherwise(first, run)) return 1;
  return static_cast<double>(run.trainings.front().samples) / static_cast<double>(first.trainings.front().samples);
}

}  // namespace

std::optional<LostSeconds> lost_seconds(const RunFigures& first, const RunFigures& run) {
  if (!first.power || !run.power || first.power->kind != run.power->kind) return std::nullopt;
  const double share = samples_beside(first, run) * first.power->units / run.power->units;
  const TimeShares before = first.time(), now = run.time();
  const Imbalance uneven_before = first.imbalance(), uneven = run.imbalance();
  return LostSeconds{
      .even_share_s = share * first.seconds_per_epoch(),
      .compute_s = now.compute_s - uneven.compute_s - share * (before.compute_s - uneven_before.compute_s),
      .straggler_s = uneven.compute_s + uneven.wait_s - share * (uneven_before.compute_s + uneven_before.wait_s),
      .communication_s = now.exposed_comm_s - uneven.wait_s - share * (before.exposed_comm_s - uneven_before.wait_s),
      .optimizer_s = now.optimizer_s - share * before.optimizer_s,
      .data_wait_s = now.data_wait_s - share * before.data_wait_s,
      .other_s = now.other_s - share * before.other_s,
  };
}

}  // namespace dptrain::train
