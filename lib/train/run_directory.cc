#include "train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
/// What a run leaves that somebody may want to keep. Its config.yaml alone is none of it.
constexpr std::array<const char*, 4> kResults = {"metrics.jsonl", "steps.jsonl", "summary.json", "checkpoints"};
constexpr std::array<const char*, 4> kFiles = {"config.yaml", "metrics.jsonl", "steps.jsonl", "summary.json"};

/// Removes what an earlier run wrote, and nothing else: somebody's own files in `checkpoints` stay.
void remove_results(const fs::path& run, std::error_code& error) {
  for (const char* file : kFiles) {
    if (fs::is_regular_file(run / file, error)) fs::remove(run / file, error);
    if (error && error != std::errc::no_such_file_or_directory) return;
  }
  error.clear();
  if (!fs::is_directory(run / "checkpoints", error)) return error.clear();
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", error)) {
    if (!entry.path().filename().string().starts_with("step-")) continue;
    fs::remove(entry.path() / kWeights, error);
    if (error) return;
    std::error_code not_empty;
    fs::remove(entry.path(), not_empty);
  }
  std::error_code not_empty;
  fs::remove(run / "checkpoints", not_empty);
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& path, bool overwrite) : path_(path) {
  make_folder(path);
  const fs::path lock = path / ".lock";
  std::error_code error;
  const bool has_lock = fs::exists(lock, error);
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0)
    throw Error(ExitCode::io, fmt::format("{}: could not create: {}", lock.string(), std::strerror(errno)));
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    ::close(lock_);
    throw Error(ExitCode::io, Mistake{.where = path.string(), .expected = what, .got = "", .advice = advice});
  };
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    refuse("another process is writing this run directory", "wait for it, or choose another with --out");
  for (const char* result : kResults) {
    if (overwrite || !fs::exists(path / result, error)) continue;
    const std::string what = result == std::string("metrics.jsonl") ? "metrics" : result;
    refuse(fmt::format("the run directory already has {}", what),
           "--overwrite replaces them, --out DIR chooses another directory");
  }
  if (!overwrite && !has_lock && fs::exists(path / "config.yaml", error))
    refuse("the directory has a config.yaml that no run wrote", "choose another directory with --out");
  remove_results(path, error);
  if (error) refuse(fmt::format("could not remove an earlier run: {}", error.message()), "choose another with --out");
}

RunDirectory::~RunDirectory() { ::close(lock_); }

void RunDirectory::write_config(const std::string& yaml) { write_file_atomically(path_ / "config.yaml", yaml); }

void RunDirectory::append_metrics(const std::string& line) { append_line(path_ / "metrics.jsonl", line); }

void RunDirectory::append_step(const std::string& line) { append_line(path_ / "steps.jsonl", line); }

void RunDirectory::write_summary(const std::string& json) {
  write_file_atomically(path_ / "summary.json", json + "\n");
}

fs::path RunDirectory::write_weights(int64_t step, const std::vector<nn::NamedValues>& tensors) {
  const fs::path folder = path_ / "checkpoints" / fmt::format("step-{:06}", step);
  make_folder(folder);
  write_safetensors(folder / kWeights, tensors);
  return folder / kWeights;
}

fs::path find_weights(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  if (fs::is_regular_file(path / kWeights, error)) return path / kWeights;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path / "checkpoints", error))
    if (entry.path().filename().string().starts_with("step-") && fs::is_regular_file(entry.path() / kWeights, error))
      found.push_back(entry.path() / kWeights);
  if (found.empty())
    throw Error(ExitCode::missing_file,
                Mistake{.where = path.string(),
                        .expected = "expected a .safetensors file, a checkpoint or a run directory with one",
                        .got = fs::exists(path, error) ? "neither" : "nothing there",
                        .advice = "name for instance runs/lenet_ddp_2cpu"});
  // Steps are padded to six digits; a longer number is a later step.
  return *std::ranges::max_element(found, {}, [](const fs::path& file) {
    const std::string step = file.parent_path().filename().string();
    return std::pair(step.size(), step);
  });
}

}  // namespace dptrain::train
