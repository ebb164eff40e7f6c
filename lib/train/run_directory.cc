#include "train/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "train/best_link.h"
#include "train/checkpoint_files.h"
#include "train/event_record.h"
#include "train/event_scalars.h"
#include "train/fault_record.h"
#include "train/run_state.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

/// The folder of event files, with TensorBoard's usual name.
constexpr const char* kEvents = "tb";
/// The results of a run, which somebody may want to keep. A config.yaml alone isn't a result.
constexpr std::array<const char*, 6> kResults = {"metrics.jsonl", "steps.jsonl", "summary.json",
                                                 "trace.json",    "checkpoints", kEvents};
constexpr std::array<const char*, 7> kFiles = {"config.yaml",  "metrics.jsonl",         "steps.jsonl",
                                               "summary.json", "metrics.jsonl.damaged", "steps.jsonl.damaged",
                                               "trace.json"};

/// Removes the records of a failure: fault.json, and those of other processes of the job.
void remove_faults(const fs::path& run, std::error_code& error) {
  std::vector<fs::path> faults;
  for (const auto& entry : fs::directory_iterator(run, error))
    if (is_fault_name(entry.path().filename().string())) faults.push_back(entry.path());
  if (error == std::errc::no_such_file_or_directory) error.clear();
  for (const fs::path& fault : faults)
    if (!error) fs::remove(fault, error);
}

/// Removes what an earlier run wrote, and nothing else: the user's own files in `checkpoints` stay.
void remove_results(const fs::path& run, std::error_code& error) {
  for (const char* file : kFiles) {
    if (fs::is_regular_file(run / file, error)) fs::remove(run / file, error);
    if (error && error != std::errc::no_such_file_or_directory) return;
  }
  error.clear();
  remove_faults(run, error);
  if (error) return;
  remove_event_files(run / kEvents, error);
  if (error) return;
  if (!fs::is_directory(run / "checkpoints", error)) return error.clear();
  unlink_best(run / "checkpoints");
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    std::error_code no_folder;
    if (!is_checkpoint_name(name) && !is_checkpoint_remnant(name)) continue;
    if (!fs::is_directory(entry.path(), no_folder)) continue;
    for (const StateFile& file : kStateFiles) {
      fs::remove(entry.path() / file.name, error);
      if (error) return;
    }
    fs::remove(entry.path() / kManifest, error);
    if (error) return;
    std::error_code not_empty;
    fs::remove(entry.path(), not_empty);
  }
  // A link to another disk stays, and the next run uses it.
  std::error_code not_empty;
  if (!fs::is_symlink(run / "checkpoints", not_empty)) fs::remove(run / "checkpoints", not_empty);
}

/// The path of the copy of a file from before its damaged lines were dropped.
fs::path damaged_copy(fs::path path) { return path += ".damaged"; }

/// Whole lines of a file that may be missing; half a line at its end is skipped.
std::vector<std::string> whole_lines(const fs::path& path) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line) && !text.eof();) lines.push_back(line);
  return lines;
}

/// The number under `key` in a line; nothing if no run writes such a line.
std::optional<int64_t> number_of_line(const std::string& line, const char* key) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains(key) || !object[key].is_number_integer()) return std::nullopt;
  return object[key].get<int64_t>();
}

/// Keeps the lines whose `key` is at most `last`. Returns the number, from 1, of the first line without such a key; 0
/// if all lines have it.
size_t keep_lines(const fs::path& path, const char* key, int64_t last) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return 0;
  size_t damaged = 0, number = 0;
  std::string kept;
  for (const std::string& line : whole_lines(path)) {
    ++number;
    const auto at = number_of_line(line, key);
    if (!at && damaged == 0) damaged = number;
    if (at && *at <= last) kept += line + "\n";
  }
  if (damaged > 0) fs::copy_file(path, damaged_copy(path), fs::copy_options::skip_existing, error);
  if (error) throw Error(ExitCode::io, fmt::format("{}: could not copy: {}", path.string(), error.message()));
  write_file_atomically(path, kept);
  return damaged;
}

/// A sentence if epochs before epoch `last` are missing. The epochs of a run that went on from another run's checkpoint
/// need not begin with the first.
std::string gap_in_epochs(const fs::path& metrics, int64_t last) {
  std::vector<int64_t> epochs;
  for (const std::string& line : whole_lines(metrics)) epochs.push_back(nlohmann::json::parse(line)["epoch"]);
  if (epochs.empty())
    return last == 0 ? ""
                     : fmt::format(
                           "{}: expected a line for each epoch up to {}, got none, as in a run that has just resumed "
                           "from another run's checkpoint; training continues anyway",
                           metrics.string(), last);
  if ((epochs.back() == last && last - epochs.front() + 1 == static_cast<int64_t>(epochs.size()))) return {};
  return fmt::format("{}: expected a line for each epoch from {} to {}, got {} lines; training continues anyway",
                     metrics.string(), epochs.front(), last, epochs.size());
}

/// Returns a file of weights after checking that it is whole. The average beside it is checked too, because the
/// training's evaluations used it.
fs::path undamaged(const fs::path& file) {
  require_undamaged(file);
  if (file.filename() == kWeights) require_undamaged(file.parent_path() / kAverage);
  return file;
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& path, EarlierRun earlier, bool resumable) : path_(path), lock_(path) {
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    throw Error(ExitCode::io, Mistake{.where = path.string(), .expected = what, .got = "", .advice = advice});
  };
  std::error_code error;
  for (const char* result : kResults) {
    if (earlier != EarlierRun::refuse || !fs::exists(path / result, error)) continue;
    const std::string what = result == std::string("metrics.jsonl") ? "metrics" : result;
    refuse(fmt::format("the run directory already has {}", what),
           std::string(resumable ? "--resume goes on with the run, " : "") +
               "--overwrite replaces its files, --out DIR chooses another directory");
  }
  // The lock file alone isn't enough: a copy of a run may have one.
  const bool goes_on = earlier == EarlierRun::resume && std::ranges::any_of(kResults, [&](const char* result) {
                         return fs::exists(path / result, error);
                       });
  if (earlier != EarlierRun::overwrite && !goes_on && lock_.is_new() && fs::exists(path / "config.yaml", error))
    refuse("the directory has a config.yaml that no run wrote", "choose another directory with --out");
  // Checked now, and not only after an epoch has been trained that can't be written.
  const auto require = [&](bool is_such, const char* name, const char* expected) {
    if (!is_such && fs::exists(path / name, error))
      throw Error(
          ExitCode::io,
          Mistake{.where = (path / name).string(),
                  .expected = fmt::format("expected a {}, as a run writes it", expected),
                  .got = fs::is_regular_file(path / name, error) ? "a file" : kind_of_what_is_no_file(path / name),
                  .advice = "move it away, or choose another directory with --out"});
  };
  for (const char* file : kFiles) require(fs::is_regular_file(path / file, error), file, "file");
  require(fs::is_directory(path / kEvents, error), kEvents, "folder");
}

void RunDirectory::remove_earlier_run() {
  lock_.require_held();
  events_.reset();
  std::error_code error;
  remove_results(path_, error);
  if (error)
    throw Error(ExitCode::io, fmt::format("{}: could not remove an earlier run: {}; {}", path_.string(),
                                          error.message(), kElsewhere));
}

void RunDirectory::remove_records_of_failures() {
  std::error_code kept;
  remove_faults(path_, kept);
}

void RunDirectory::remove() {
  if (lock_.is_new()) return;
  remove_earlier_run();
  lock_.remove();
}

void RunDirectory::write_config(const std::string& yaml) {
  lock_.require_held();
  lock_.keep();
  write_file_atomically(path_ / "config.yaml", yaml);
}

void RunDirectory::append_metrics(const std::string& line) {
  lock_.require_held();
  append_line(path_ / "metrics.jsonl", line);
}

void RunDirectory::append_step(const std::string& line) {
  lock_.require_held();
  append_line(path_ / "steps.jsonl", line);
}

void RunDirectory::append_events(std::string_view records, Sync sync) {
  lock_.require_held();
  if (!events_) events_.emplace(path_ / kEvents);
  events_->append(records, sync);
}

fs::path RunDirectory::checkpoints() const {
  lock_.require_held();
  return path_ / "checkpoints";
}

void RunDirectory::write_summary(const std::string& json) {
  lock_.require_held();
  write_file_atomically(path_ / "summary.json", json + "\n");
}

void RunDirectory::write_trace(const std::string& json) {
  lock_.require_held();
  write_file_atomically(path_ / "trace.json", json);
}

void RunDirectory::write_fault(const std::string& json) {
  lock_.require_held();
  write_file_unsynced(path_ / fault_name(0, 0), json);
}

std::string RunDirectory::config() const {
  std::error_code error;
  return fs::is_regular_file(path_ / "config.yaml", error) ? read_file(path_ / "config.yaml") : "";
}

std::vector<std::string> RunDirectory::metrics(int64_t epochs) const {
  std::vector<std::string> lines;
  for (const std::string& line : whole_lines(path_ / "metrics.jsonl"))
    if (const auto epoch = number_of_line(line, "epoch"); epoch && *epoch <= epochs) lines.push_back(line);
  return lines;
}

std::string RunDirectory::last_metrics() const {
  std::error_code error;
  if (!fs::is_regular_file(path_ / "metrics.jsonl", error)) return {};
  std::string text = read_file(path_ / "metrics.jsonl");
  if (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::optional<FinishedTraining> RunDirectory::finished() const {
  std::error_code error;
  if (!fs::is_regular_file(path_ / "summary.json", error)) return std::nullopt;
  const auto summary = nlohmann::json::parse(read_file(path_ / "summary.json"), nullptr, false);
  const auto value = [&](const char* key) {
    return summary.is_object() ? summary.value(key, nlohmann::json()) : nlohmann::json();
  };
  if (value("exit") != 0) return std::nullopt;
  FinishedTraining finished;
  if (const auto steps = value("steps"); steps.is_number_integer()) finished.steps = steps;
  finished.stopped_early = value("stopped_early") == true;
  return finished;
}

std::vector<std::string> RunDirectory::go_back_to(int64_t epochs, int64_t step) {
  lock_.require_held();
  std::vector<std::string> damage;
  const auto keep = [&](const char* file, const char* key, int64_t last) {
    const fs::path path = path_ / file;
    if (const size_t line = keep_lines(path, key, last); line > 0)
      damage.push_back(
          fmt::format("{}: line {} is not one that a run writes; it and others like it are dropped, and the original "
                      "file is kept as {}",
                      path.string(), line, damaged_copy(path).string()));
  };
  keep("metrics.jsonl", "epoch", epochs);
  keep("steps.jsonl", "step", step);
  if (has_event_files(path_ / kEvents)) go_back_in_events(step);
  if (const std::string gap = gap_in_epochs(path_ / "metrics.jsonl", epochs); !gap.empty()) damage.push_back(gap);
  std::error_code error;
  fs::remove(path_ / "summary.json", error);
  remove_records_of_failures();
  return damage;
}

void RunDirectory::go_back_in_events(int64_t step) {
  const auto last_line_is_of_step = [&](const std::vector<std::string>& lines) {
    return !lines.empty() && number_of_line(lines.back(), "step") == step;
  };
  const double now_s = event_time_s();
  std::string records;
  if (last_line_is_of_step(whole_lines(path_ / "metrics.jsonl"))) {
    records = session_record(now_s, step + 1);
  } else {
    // The epoch that ends with this step may have been reported already, and will be reported again.
    records = session_record(now_s, step);
    if (const auto steps = whole_lines(path_ / "steps.jsonl"); last_line_is_of_step(steps))
      records += scalars_record(now_s, step, step_scalars(steps.back()));
  }
  events_.reset();
  append_events(records, Sync::now);
}

bool lies_in_run(const fs::path& path, const fs::path& run) {
  std::error_code unreadable;
  const fs::path relative =
      fs::weakly_canonical(path, unreadable).lexically_relative(fs::weakly_canonical(run, unreadable));
  return !relative.empty() && *relative.begin() != "..";
}

fs::path find_weights(const fs::path& path, const DamageReport& report) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return undamaged(path);
  if (fs::is_regular_file(path / kWeights, error)) return undamaged(path / kWeights);
  const fs::path checkpoints = path / "checkpoints";
  fs::path found;
  if (read_newest(checkpoints, report, [&](const fs::path& newest) { found = undamaged(newest / kWeights); }))
    return found;
  if (fs::is_regular_file(path / kManifest, error))
    return undamaged(path / kWeights);  // reading them reports what is missing
  require_readable_folder(path);
  throw Error(ExitCode::missing_file,
              Mistake{.where = path.string(),
                      .expected = "expected a .safetensors file, a checkpoint or a run directory with one",
                      .got = fs::exists(path, error) ? "neither" : "nothing there",
                      .advice = advice_on_runs()});
}

}  // namespace dptrain::train
