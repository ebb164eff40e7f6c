#include "train/run_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "train/fault_record.h"
#include "train/run_file.h"
#include "train/strategy_choice_json.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

PassRecord pass_record(const ordered_json& pass) { return {.loss = pass.at("loss"), .accuracy = pass.at("accuracy")}; }

/// A pass that may be missing; earlier versions didn't write all of them.
std::optional<PassRecord> optional_pass(const ordered_json& epoch, const char* key) {
  const auto pass = epoch.find(key);
  return pass != epoch.end() && pass->is_object() ? std::optional(pass_record(*pass)) : std::nullopt;
}

DeviceMetrics device_record(const ordered_json& device) {
  DeviceMetrics record{.device = device.at("device"),
                       .host = device.at("host"),
                       .process = device.value("process", 0),
                       .rank = device.at("rank"),
                       .samples = device.at("samples"),
                       .busy = device.at("busy"),
                       .peak_bytes = device.at("peak_bytes"),
                       .memory = {}};
  for (const MemoryPurpose purpose : kMemoryPurposes)
    record.memory[purpose] = device.at("memory").at(std::string(memory_purpose_name(purpose)));
  return record;
}

EpochRecord epoch_record(const ordered_json& epoch) {
  EpochRecord record{.train = pass_record(epoch.at("train")),
                     .validation = optional_pass(epoch, "validation"),
                     .test = optional_pass(epoch, "test"),
                     .cost = {}};
  EpochMetrics& cost = record.cost;
  cost.epoch = epoch.at("epoch");
  cost.strategy = epoch.at("strategy");
  cost.global_batch = epoch.value("global_batch", int64_t{0});
  cost.learning_rate = epoch.at("learning_rate");
  cost.train.seconds = epoch.at("train").at("seconds");
  cost.train.score.samples = epoch.at("train").at("samples");
  const ordered_json& time = epoch.at("time");
  cost.time = {.compute_s = time.at("compute_s"),
               .exposed_comm_s = time.at("exposed_comm_s"),
               .data_wait_s = time.at("data_wait_s"),
               .optimizer_s = time.at("optimizer_s"),
               .other_s = time.at("other_s")};
  cost.comm_bytes = epoch.at("comm").at("bytes");
  cost.skipped_steps = epoch.value("skipped_steps", int64_t{0});
  for (const ordered_json& device : epoch.at("devices")) cost.devices.push_back(device_record(device));
  if (const auto slow = epoch.find("straggler"); slow != epoch.end() && slow->is_object())
    cost.straggler = {.rank = slow->at("rank"), .slower = slow->at("slower"), .waited_s = slow->at("waited_s")};
  // The means, as if they were of one sample.
  if (const auto noise = epoch.find("gradient_noise"); noise != epoch.end() && noise->is_object())
    cost.train.score.noise = {
        .variance_sum = noise->at("variance"), .squared_norm_sum = noise->at("squared_norm"), .samples = 1};
  return record;
}

/// Checks that an epoch has devices and that its straggler is one of them.
void require_devices(const EpochMetrics& epoch, const fs::path& file) {
  const auto devices = static_cast<int>(epoch.devices.size());
  if (devices == 0) refuse_run_file(file, fmt::format("no devices in epoch {}", epoch.epoch));
  if (const auto& slow = epoch.straggler; slow && (slow->rank < 0 || slow->rank >= devices))
    refuse_run_file(file, fmt::format("a straggler of rank {} among {} in epoch {}", slow->rank, devices, epoch.epoch));
}

/// "cpu:0, cpu:1"
std::string joined(const ordered_json& texts) {
  return fmt::format("{}", fmt::join(texts.get<std::vector<std::string>>(), ", "));
}

std::string processor_of(const ordered_json& machine) {
  return fmt::format("{}, {}, {} cores", machine.at("cpu").get<std::string>(),
                     machine.at("instructions").get<std::string>(), machine.at("cores").get<int64_t>());
}

std::vector<std::pair<std::string, std::string>> environment_of(const ordered_json& environment) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"dptrain", fmt::format("{} ({})", environment.at("dptrain").get<std::string>(),
                              environment.at("commit").get<std::string>())},
      {"libraries", joined(environment.at("libraries"))}};
  if (const auto processes = environment.find("processes"); processes != environment.end() && processes->size() > 1) {
    for (const ordered_json& process : *processes)
      facts.emplace_back(fmt::format("process {}", process.at("process").get<int64_t>()),
                         fmt::format("{}: {}; {}", process.at("host").get<std::string>(), processor_of(process),
                                     joined(process.at("devices"))));
  } else {
    facts.emplace_back("processor", processor_of(environment));
  }
  facts.emplace_back("threads",
                     fmt::format("{}", fmt::join(environment.at("threads").get<std::vector<int64_t>>(), ", ")));
  if (const auto sums = environment.find("gradient_sums"); sums != environment.end())
    for (const auto& [where, key] :
         {std::pair("between devices", "between_devices"), {"between processes", "between_processes"}})
      if (const ordered_json& way = sums->at(key); way.is_string())
        facts.emplace_back(fmt::format("gradients {}", where), way.get<std::string>());
  return facts;
}

RunEnding ending_of(const ordered_json& summary, const fs::path& file) {
  RunEnding ending{.stopped_early = summary.value("stopped_early", false),
                   .best_epoch = {},
                   .environment = environment_of(summary.at("environment")),
                   .choice = {}};
  if (const auto best = summary.find("best"); best != summary.end() && best->is_object())
    ending.best_epoch = best->at("epoch").get<int64_t>();
  if (const auto trials = summary.find("strategy_trials"); trials != summary.end() && trials->is_object())
    ending.choice = parse_choice(trials->dump(), file.string());
  return ending;
}

/// The fault record of the first process that has left one.
std::optional<fs::path> fault_file(const fs::path& directory) {
  std::vector<fs::path> records;
  for (const fs::path& file : entries_of(directory))
    if (is_fault_name(file.filename().string()) && file.extension() == ".json") records.push_back(file);
  if (records.empty()) return std::nullopt;
  const fs::path first = directory / fault_name(0, 0);
  return std::ranges::find(records, first) != records.end() ? first : std::ranges::min(records);
}

FaultNote fault_note(const ordered_json& fault) {
  return {.exit = fault.at("exit"), .cause = fault.at("root").at("cause"), .resume = fault.at("resume")};
}

}  // namespace

RunRecord read_run_record(const RunState& run) {
  RunRecord record{.config = read_file(run.directory / "config.yaml"), .epochs = {}, .ending = {}, .fault = {}};
  const fs::path metrics = run.directory / "metrics.jsonl", summary = run.directory / "summary.json";
  double seconds = 0;
  if (run.epochs > 0)
    read_run_lines(metrics, [&](const std::string& line) {
      EpochRecord epoch = epoch_record(ordered_json::parse(line));
      if (epoch.cost.epoch > run.epochs) return;
      require_devices(epoch.cost, metrics);
      epoch.seconds = seconds += epoch.cost.train.seconds;
      record.epochs.push_back(std::move(epoch));
    });
  if (run.exit)
    read_run_document(summary,
                      [&](const std::string& text) { record.ending = ending_of(ordered_json::parse(text), summary); });
  if (run.has_failed)
    if (const auto file = fault_file(run.directory))
      read_run_document(*file, [&](const std::string& text) { record.fault = fault_note(ordered_json::parse(text)); });
  return record;
}

}  // namespace dptrain::train
