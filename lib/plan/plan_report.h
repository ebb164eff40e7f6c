#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/planned_step.h"
#include "plan/step_times.h"
#include "plan/store_places.h"

namespace dptrain::plan {

/// What `dptrain plan` prints.
struct PlanReport {
  std::string run;
  std::string strategy;
  std::string devices;  ///< as the user named them
  int64_t accumulate = 1;
  int hosts = 1;
  /// Memory of the table's device; none if it isn't known.
  std::optional<int64_t> device_memory_bytes = {};
  /// Memory of this machine, if all ranks are CPU workers that share it.
  std::optional<int64_t> host_memory_bytes = {};
  PlannedStep step;
  std::optional<StorePlaces> places = {};  ///< for a store on servers
  std::optional<StepTimes> times;          ///< set if the devices' figures are known
  std::optional<StepTimes> between;        ///< times of a step that doesn't end with averaging the replicas
  std::string figures_source;              ///< the source of the figures behind the times
  /// How the first rank's operators were estimated; set if some were measured.
  std::optional<EstimateShares> shares = {};

  /// The largest peak of any rank.
  int64_t most_bytes() const;
  /// The sum of all peaks, plus what a store holds in host memory.
  int64_t all_bytes() const;
  /// The mean over a whole period, for replicas that are averaged after some steps; needs `times`.
  double mean_step_s() const;
  /// Whether each rank's peak fits its device, and the peaks of CPU workers together fit the machine; nothing if that
  /// isn't known.
  std::optional<bool> fits() const;

  /// Tables of memory, operators and messages, and the step's time, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/plan.schema.json is its schema.
  std::string json() const;
  /// The step's timeline; needs `times`. See planned_timeline.h.
  std::string trace() const;
};

}  // namespace dptrain::plan
