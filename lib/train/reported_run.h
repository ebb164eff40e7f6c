#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/run_figures.h"
#include "train/run_record.h"
#include "train/run_table.h"

namespace dptrain::train {

/// A run as a report shows it.
struct ReportedRun {
  const RunState& state;
  const RunRecord& record;
  std::string label;
  std::string difference;                  ///< what it differs from the others in: "strategy ddp, overlap false"
  std::string anchor;                      ///< where the page tells of it alone
  std::optional<size_t> look = {};         ///< of its curves; none of a run that isn't in their legend
  std::optional<TrainingFigures> figures;  ///< none before its first epoch
  /// The last epochs on one list of devices, which the figures are of; a run may have been resumed on others.
  std::span<const EpochRecord> on_its_devices = {};

  /// "label (what it differs in)"
  std::string name() const;
  /// Whether more epochs may come.
  bool goes_on() const { return !state.exit && !state.has_failed; }
};

/// The runs of the table, in its order, of which these are the records. Both are to outlive what is returned.
std::vector<ReportedRun> reported_runs(const RunTable& table, const std::vector<RunRecord>& records);

/// What the runs in the legend have been chosen by, where there are more than curves can be told apart: "the highest
/// test accuracy".
std::string chosen_by(const std::vector<ReportedRun>& runs);

/// The run's label, in HTML, which leads to what the page tells of it alone.
std::string link_to(const ReportedRun& run);

}  // namespace dptrain::train
