#include "plan/calibration.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace dptrain::plan {

MeasuredStep read_measured_step(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "metrics.jsonl";
  std::ifstream file(path);
  if (!file)
    throw Error(ExitCode::missing_file, Mistake{.where = run.string(),
                                                .expected = "expected a run directory with metrics.jsonl",
                                                .got = "none",
                                                .advice = "name one that dptrain train has written"});
  std::string last;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) last = line;
  try {
    const auto metrics = nlohmann::json::parse(last);
    const auto &train = metrics.at("train"), &time = metrics.at("time");
    const auto seconds = [](const auto& part, const char* key) { return part.at(key).template get<double>(); };
    const double steps = seconds(train, "samples") / seconds(metrics, "global_batch");
    return {.compute_s = (seconds(time, "compute_s") + seconds(time, "optimizer_s")) / steps,
            .exposed_comm_s = seconds(time, "exposed_comm_s") / steps,
            .other_s = (seconds(time, "other_s") + seconds(time, "data_wait_s")) / steps,
            .step_s = seconds(train, "seconds") / steps};
  } catch (const nlohmann::json::exception& damage) {
    throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                            .expected = "expected an epoch that dptrain has written",
                                            .got = damage.what(),
                                            .advice = "name a run that has trained an epoch"});
  }
}

Calibration calibrated(const MeasuredStep& measured, const PlannedStep& planned, const DeviceFigures& figures,
                       Precision precision) {
  double computed = 0;
  for (const PlannedRank& rank : planned.ranks)
    for (const OperatorCost& cost : rank.operators) computed += operator_seconds(cost, figures, precision);
  computed /= static_cast<double>(planned.ranks.size());
  return {.compute_factor = measured.compute_s / computed, .host_s = measured.other_s};
}

}  // namespace dptrain::plan
