#include "train/run_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "config/config_document.h"
#include "config/json_words.h"
#include "train/fault_record.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConfig = "config.yaml";

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kConfig, error);
}

/// The folders in `folder`, by name.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

/// A comparison keeps its runs in folders, and repeated ones a folder further down.
void add_runs(const fs::path& folder, int levels, std::vector<fs::path>& runs) {
  if (is_run(folder)) {
    runs.push_back(folder);
    return;
  }
  if (levels == 0) return;
  for (const fs::path& inner : folders_in(folder)) add_runs(inner, levels - 1, runs);
}

void read_metrics(const fs::path& file, RunState& run) {
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const bool is_whole = !lines.eof();
    if (!is_whole) return;
    const json epoch = json::parse(line);
    run.epochs = epoch.at("epoch");
    run.steps = epoch.at("step");
    run.train_loss = epoch.at("train").at("loss").get<double>();
    run.seconds += epoch.at("train").at("seconds").get<double>();
    run.weights_hash = epoch.at("weights_hash");
    if (const json& test = epoch.at("test"); test.is_object()) {
      run.test_loss = test.at("loss").get<double>();
      run.accuracy = test.at("accuracy").get<double>();
    }
  }
}

void read_summary(const fs::path& file, RunState& run) {
  const json summary = json::parse(read_file(file));
  run.exit = summary.at("exit").get<int>();
  run.steps = summary.at("steps");
  run.weights_hash = summary.at("weights_hash");
}

}  // namespace

std::vector<fs::path> find_runs(const std::vector<fs::path>& paths) {
  std::vector<fs::path> runs;
  for (const fs::path& path : paths) {
    const size_t before = runs.size();
    // "runs/a/" and "runs/a" are one folder, and have one name.
    add_runs(path.has_filename() ? path : path.parent_path(), 2, runs);
    if (runs.size() > before) continue;
    require_readable_folder(path);
    throw Error(ExitCode::missing_file, Mistake{.where = path.string(),
                                                .expected = "expected a run directory, or a folder of some",
                                                .got = fs::exists(path) ? "neither" : "nothing there",
                                                .advice = "name for instance runs/lenet_ddp_2cpu"});
  }
  return runs;
}

const char* RunState::state() const {
  if (!exit) return has_failed ? "failed" : "unfinished";
  return *exit == 0 ? "finished" : "stopped";
}

RunState read_run_state(const fs::path& directory) {
  RunState run{.directory = directory,
               .config = load_config(directory / kConfig),
               .exit = {},
               .train_loss = {},
               .test_loss = {},
               .accuracy = {},
               .weights_hash = {}};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    run.has_failed |= is_fault_name(entry.path().filename().string());
  fs::path file = directory / "metrics.jsonl";
  try {
    if (fs::exists(file, error)) read_metrics(file, run);
    file = directory / "summary.json";
    if (fs::exists(file, error)) read_summary(file, run);
  } catch (const json::exception& damage) {
    throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                            .expected = "expected what a run of dptrain writes",
                                            .got = json_words(damage),
                                            .advice = "leave this directory out"});
  }
  return run;
}

}  // namespace dptrain::train
