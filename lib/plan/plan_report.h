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
  std::string devices;  ///< as they were asked for
  int64_t accumulate = 1;
  int hosts = 1;
  /// Of the table's device; none where that isn't known.
  std::optional<int64_t> device_memory_bytes = {};
  /// Of this machine, where all ranks are CPU workers on it, which share it.
  std::optional<int64_t> host_memory_bytes = {};
  PlannedStep step;
  std::optional<StorePlaces> places = {};  ///< of a store on servers
  std::optional<StepTimes> times;          ///< where the devices' figures are known
  std::optional<StepTimes> between;        ///< of a step after which replicas don't become their mean
  std::string figures_source;              ///< of the times
  /// Of the first rank's operators, where some were measured.
  std::optional<EstimateShares> shares = {};

  /// The largest peak of a rank.
  int64_t most_bytes() const;
  /// All peaks together, with what a store holds beside them in host memory.
  int64_t all_bytes() const;
  /// Of steps of a whole period, where replicas become their mean after some; with `times`.
  double mean_step_s() const;
  /// Whether all ranks' peaks fit their devices, and those of CPU workers together the machine; nothing where it isn't
  /// known.
  std::optional<bool> fits() const;

  /// Tables of memory, operators and messages, and the step's time, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/plan.schema.json is its schema.
  std::string json() const;
  /// The step's timeline, with `times`; see planned_timeline.h.
  std::string trace() const;
};

}  // namespace dptrain::plan
