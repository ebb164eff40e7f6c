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

constexpr std::array<const char*, 5> kFiles = {"config.yaml", "metrics.jsonl", "steps.jsonl", "summary.json",
                                               "checkpoints"};
constexpr const char* kWeights = "model.safetensors";

}  // namespace

RunDirectory::RunDirectory(const fs::path& path, bool overwrite) : path_(path) {
  make_folder(path);
  const fs::path lock = path / ".lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0)
    throw Error(ExitCode::io, fmt::format("{}: could not create: {}", lock.string(), std::strerror(errno)));
  const auto refuse = [&](const std::string& what, const std::string& advice) {
    ::close(lock_);
    throw Error(ExitCode::io, Mistake{.where = path.string(), .expected = what, .got = "", .advice = advice});
  };
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0)
    refuse("another process is writing this run directory", "wait for it, or choose another with --out");
  std::error_code error;
  if (!overwrite && fs::exists(path / "metrics.jsonl", error))
    refuse("the run directory already has metrics", "--overwrite replaces them, --out DIR chooses another directory");
  for (const char* file : kFiles) {
    fs::remove_all(path / file, error);
    if (error)
      refuse(fmt::format("could not remove {}: {}", file, error.message()), "choose another directory with --out");
  }
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
