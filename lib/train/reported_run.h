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
  std::string difference;                  ///< its differences from the others: "strategy ddp, overlap false"
  std::string anchor;                      ///< the place of the page's part about this run
  std::optional<size_t> look = {};         ///< of its curves; none for a run that isn't in the legend
  std::optional<TrainingFigures> figures;  ///< none before the run's first epoch
  /// The last epochs that ran on the same devices; the figures are from these. Earlier epochs may have run on other
  /// devices before the run was resumed.
  std::span<const EpochRecord> on_its_devices = {};

  /// "label (its differences from the others)"
  std::string name() const;
  /// Whether more epochs may come.
  bool goes_on() const { return !state.exit && !state.has_failed; }
};

/// The table's runs in its order. `records` are the records of the same runs. Both must outlive the result.
std::vector<ReportedRun> reported_runs(const RunTable& table, const std::vector<RunRecord>& records);

/// The criterion for the runs in the legend, if there are more runs than distinct curves: "the highest test accuracy".
std::string chosen_by(const std::vector<ReportedRun>& runs);

/// The run's label as HTML, with a link to the page's part about this run.
std::string link_to(const ReportedRun& run);

}  // namespace dptrain::train
