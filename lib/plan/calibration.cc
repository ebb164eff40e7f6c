#include "plan/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "config/json_words.h"

namespace dptrain::plan {

namespace {

/// The sum of parts that are timed separately may be a little more than the whole.
constexpr double kMostOfAStep = 1.5;

[[noreturn]] void damaged(const std::filesystem::path& file, const std::string& got) {
  throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                          .expected = "expected an epoch's metrics, as dptrain train writes them",
                                          .got = got,
                                          .advice = "name a run that has finished an epoch"});
}

/// A number of the last epoch that is at least 0, and not 0 unless `may_be_none`.
double number(const std::filesystem::path& file, const nlohmann::json& object, const char* key, bool may_be_none) {
  const auto value = object.at(key).get<double>();
  if (std::isfinite(value) && (may_be_none ? value >= 0 : value > 0)) return value;
  damaged(file, fmt::format("{}: {}", key, object.at(key).dump()));
}

}  // namespace

MeasuredStep read_measured_step(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "metrics.jsonl";
  std::ifstream file(path);
  if (!file)
    throw Error(ExitCode::missing_file, Mistake{.where = run.string(),
                                                .expected = "expected a run directory with metrics.jsonl",
                                                .got = "none",
                                                .advice = "name the directory of a run of dptrain train"});
  std::string last;
  int number_of_line = 0, number_of_last = 1;
  for (std::string line; std::getline(file, line);) {
    ++number_of_line;
    if (line.empty()) continue;
    last = line;
    number_of_last = number_of_line;
  }
  const auto metrics = nlohmann::json::parse(last, nullptr, /*allow_exceptions=*/false);
  if (metrics.is_discarded()) damaged(path, fmt::format("no JSON in line {}", number_of_last));
  try {
    const auto &train = metrics.at("train"), &time = metrics.at("time");
    const auto some = [&path](const auto& part, const char* key) { return number(path, part, key, false); };
    const auto seconds = [&path](const auto& part, const char* key) { return number(path, part, key, true); };
    const double steps = some(train, "samples") / some(metrics, "global_batch");
    MeasuredStep step{.compute_s = (some(time, "compute_s") + seconds(time, "optimizer_s")) / steps,
                      .comm_s = seconds(time, "exposed_comm_s") / steps,
                      .step_s = some(train, "seconds") / steps};
    // The parts are means over the devices.
    if (step.compute_s + step.comm_s > kMostOfAStep * step.step_s)
      damaged(path, fmt::format("{:.4g} s of computing and waiting in {:.4g} s", steps * (step.compute_s + step.comm_s),
                                steps * step.step_s));
    std::string host;
    std::map<std::string, int> process_of;
    for (const auto& device : metrics.at("devices")) {
      if (step.devices_of_hosts.empty() || device.at("host") != host) step.devices_of_hosts.push_back(0);
      host = device.at("host");
      ++step.devices_of_hosts.back();
      const int process = device.value("process", static_cast<int>(step.devices_of_hosts.size()) - 1);
      step.process_a_host = step.process_a_host && process_of.try_emplace(host, process).first->second == process;
      step.on_cpus = step.on_cpus && device.at("device").get<std::string>().starts_with("cpu");
    }
    return step;
  } catch (const nlohmann::json::exception& damage) {
    damaged(path, fmt::format("{} in line {}", json_words(damage), number_of_last));
  }
}

bool overlaps(const PlannedStep& step) {
  return std::ranges::any_of(step.ranks, [](const PlannedRank& rank) {
    return std::ranges::any_of(rank.calls,
                               [](const LoggedCall& call) { return call.awaited_after > call.started_after; });
  });
}

Calibration calibrated(const MeasuredStep& measured, const StepTimesRequest& of_run) {
  double computed = 0;
  for (const PlannedRank& rank : of_run.step.ranks)
    for (const OperatorCost& cost : rank.operators) computed += of_run.estimates.seconds(cost);
  computed /= static_cast<double>(of_run.step.ranks.size());
  StepTimesRequest request = of_run;
  auto& exchange = request.calibration.exchange;
  const bool is_known = exchange.has_value();
  request.calibration.compute_factor = measured.compute_s / computed;
  if (measured.devices_of_hosts.size() > 1) {
    if (!is_known) {
      double bytes = 0;
      for (const LoggedCall& call : of_run.step.ranks.front().calls) bytes += of_run.calls.exchanged(call).bytes;
      exchange = {.message_s = 0, .bytes_per_s = bytes / measured.comm_s};
    }
    of_run.calls.set_exchange(*exchange);
  }
  // Workers compute more slowly while they share cores with each other or with servers of a store, or exchange data
  // meanwhile. So the factor is found by repeated planning.
  if (of_run.cores || (of_run.step.store && of_run.step.store->served) || is_known) {
    constexpr int kRounds = 10;
    for (int round = 0; round < kRounds; ++round) {
      double planned = 0;
      for (const RankTimes& rank : step_times(request).ranks) planned += rank.compute_s;
      planned /= static_cast<double>(of_run.step.ranks.size());
      request.calibration.compute_factor *= measured.compute_s / planned;
    }
  }
  Calibration calibration = request.calibration;
  calibration.host_s = std::max(0.0, measured.step_s - step_times(request).step_s);
  return calibration;
}

}  // namespace dptrain::plan
