#include "train/run_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ranges>

#include "base/error.h"
#include "base/file.h"
#include "config/config_document.h"
#include "train/directory_lock.h"
#include "train/fault_record.h"
#include "train/run_file.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "config.yaml";

/// The folders in `folder`, sorted by name.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// Adds the runs in a folder. A comparison has its runs in folders, and repeated runs one folder further down.
void add_runs(const fs::path& folder, int levels, std::vector<fs::path>& runs) {
  if (is_run_directory(folder)) {
    runs.push_back(folder);
    return;
  }
  if (levels == 0) return;
  for (const fs::path& inner : folders_in(folder)) add_runs(inner, levels - 1, runs);
}

ConfigNode config_of(const fs::path& directory) {
  try {
    return load_config(directory / kConfig);
  } catch (const Error& error) {
    // This isn't a user's mistake in a configuration: the run's file is damaged.
    if (error.code() != ExitCode::config) throw;
    throw Error(ExitCode::bad_data, error.lines());
  }
}

void read_epoch(const json& epoch, RunState& run) {
  run.epochs = epoch.at("epoch");
  run.steps = epoch.at("step");
  run.train_loss = epoch.at("train").at("loss").get<double>();
  run.seconds += epoch.at("train").at("seconds").get<double>();
  run.weights_hash = epoch.at("weights_hash");
  if (const json& test = epoch.at("test"); test.is_object()) {
    run.test_loss = test.at("loss").get<double>();
    run.accuracy = test.at("accuracy").get<double>();
    // Epochs that aren't the best so far have no test; earlier versions wrote no validation.
    if (const auto validation = epoch.find("validation"); validation != epoch.end() && validation->is_object()) {
      run.validation_loss = validation->at("loss").get<double>();
      run.validation_accuracy = validation->at("accuracy").get<double>();
    }
  }
}

void read_summary(const json& summary, RunState& run) {
  run.exit = summary.at("exit").get<int>();
  run.steps = summary.at("steps");
  // If a finished training run was resumed into this folder, the lines of its epochs aren't here.
  run.epochs = std::max(run.epochs, summary.value("epochs", int64_t{0}));
  run.weights_hash = summary.at("weights_hash");
}

}  // namespace

bool is_run_directory(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kConfig, error);
}

std::vector<fs::path> find_runs(const fs::path& path) {
  std::vector<fs::path> runs;
  // "runs/a/" and "runs/a" are the same folder and get the same name.
  add_runs(path.has_filename() ? path : path.parent_path(), 2, runs);
  if (!runs.empty()) return runs;
  require_readable_folder(path);
  throw Error(ExitCode::missing_file, Mistake{.where = path.string(),
                                              .expected = "expected a run directory, or a folder of run directories",
                                              .got = fs::exists(path) ? "neither" : "nothing there",
                                              .advice = advice_on_runs()});
}

std::string advice_on_runs() {
  constexpr size_t kNamed = 3;
  std::vector<fs::path> runs;
  add_runs("runs", 2, runs);
  if (runs.empty()) return "there is no run in runs; train one with dptrain --config lenet_ddp_2cpu";
  std::vector<std::string> names;
  for (const fs::path& run : runs | std::views::take(kNamed)) names.push_back(run.string());
  return fmt::format("name for instance {}", fmt::join(names, ", "));
}

const char* RunState::state() const {
  if (!exit) return has_failed ? "failed" : is_running ? "running" : "unfinished";
  return *exit == 0 ? "finished" : "stopped";
}

RunState read_run_state(const fs::path& directory) {
  RunState run{.directory = directory,
               .config = config_of(directory),
               .exit = {},
               .train_loss = {},
               .test_loss = {},
               .accuracy = {},
               .validation_loss = {},
               .validation_accuracy = {},
               .weights_hash = {}};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    run.has_failed |= is_fault_name(entry.path().filename().string());
  if (const fs::path metrics = directory / "metrics.jsonl"; fs::exists(metrics, error))
    read_run_lines(metrics, [&](const std::string& line) { read_epoch(json::parse(line), run); });
  if (const fs::path summary = directory / "summary.json"; fs::exists(summary, error))
    read_run_document(summary, [&](const std::string& text) { read_summary(json::parse(text), run); });
  if (!run.exit) run.is_running = is_locked(directory);
  return run;
}

}  // namespace dptrain::train
