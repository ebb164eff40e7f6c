#include "train/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "train/checkpoint_manifest.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";

/// The parts of a training's state that files hold.
struct StateFile {
  const char* name;
  std::vector<nn::NamedValues> parallel::TrainingState::*tensors;
  bool always;  ///< also where there are no tensors
};
constexpr StateFile kStateFiles[] = {{"model.safetensors", &parallel::TrainingState::model, true},
                                     {"optimizer.safetensors", &parallel::TrainingState::optimizer, true},
                                     {"average.safetensors", &parallel::TrainingState::average, false}};

/// A folder that is removed again unless it is kept.
class Aside {
 public:
  explicit Aside(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::remove_all(path_, error);
    make_folder(path_);
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() {
    std::error_code error;
    if (!kept_) fs::remove_all(path_, error);
  }
  const fs::path& path() const { return path_; }
  void move_to(const fs::path& target) {
    sync_folder(path_);
    std::error_code error;
    fs::remove_all(target, error);
    if (!error) fs::rename(path_, target, error);
    if (error)
      throw Error(ExitCode::io,
                  fmt::format("{}: could not be renamed to {}: {}", path_.string(), target.string(), error.message()));
    kept_ = true;
    sync_folder(target.parent_path());
  }

 private:
  fs::path path_;
  bool kept_ = false;
};

std::string step_name(int64_t step) { return fmt::format("step-{:06}", step); }

/// Steps are padded to six digits; a longer number is a later step.
bool in_order(const std::string& name, const std::string& later) {
  return std::pair(name.size(), name) < std::pair(later.size(), later);
}

bool is_checkpoint_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         std::ranges::all_of(name.substr(kPrefix.size()), [](unsigned char c) { return c >= '0' && c <= '9'; });
}

void keep_newest(const fs::path& folder, int64_t keep) {
  const auto folders = checkpoint_folders(folder);
  for (size_t i = 0; i + static_cast<size_t>(keep) < folders.size(); ++i) {
    // The manifest first: a folder that is half removed is no checkpoint.
    std::error_code error;
    fs::remove(folders[i] / kManifest, error);
    for (const StateFile& file : kStateFiles) fs::remove(folders[i] / file.name, error);
    fs::remove(folders[i], error);
  }
}

CheckpointManifest read_manifest(const fs::path& folder) {
  return parse_manifest(read_file(folder / kManifest, size_t{1} << 24), (folder / kManifest).string());
}

bool has_manifest(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kManifest, error);
}

/// False where the checkpoint has no such file, and need not have it.
bool require_file(const fs::path& folder, const StateFile& file, const CheckpointManifest& manifest) {
  const auto listed = manifest.files.find(file.name);
  if (listed == manifest.files.end() && !file.always) return false;
  const CheckpointFile known = listed == manifest.files.end() ? CheckpointFile{} : listed->second;
  const fs::path path = folder / file.name;
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(ExitCode::bad_data, Mistake{.where = path.string(),
                                            .expected = expected,
                                            .got = got,
                                            .advice = "the file is damaged or not of this checkpoint; use another"});
  };
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) refuse("expected a file that manifest.json names", "none");
  if (bytes != known.bytes) refuse(fmt::format("expected {} bytes", known.bytes), fmt::format("{}", bytes));
  const std::string digest = sha256_of_file(path);
  if (digest != known.sha256) refuse(fmt::format("expected SHA-256 {}", known.sha256), digest);
  return true;
}

}  // namespace

fs::path write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint, int64_t keep) {
  make_folder(folder);
  const fs::path target = folder / step_name(checkpoint.position.step);
  Aside aside(fmt::format("{}.tmp-{}", target.string(), ::getpid()));
  std::map<std::string, CheckpointFile> files;
  for (const StateFile& file : kStateFiles) {
    const auto& tensors = checkpoint.state.*file.tensors;
    if (!file.always && tensors.empty()) continue;
    const fs::path path = aside.path() / file.name;
    write_safetensors(path, tensors);
    files[file.name] = {.bytes = fs::file_size(path), .sha256 = sha256_of_file(path)};
  }
  write_file_atomically(aside.path() / kManifest, manifest_json(checkpoint, files));
  aside.move_to(target);
  keep_newest(folder, keep);
  return target;
}

Checkpoint read_checkpoint(const fs::path& path) {
  if (!has_manifest(path)) {
    require_readable_folder(path);
    std::error_code error;
    throw Error(ExitCode::missing_file, Mistake{.where = path.string(),
                                                .expected = "expected the folder of a checkpoint, with manifest.json",
                                                .got = fs::exists(path, error) ? "none" : "nothing there",
                                                .advice = "name for instance runs/lenet/checkpoints/step-000938"});
  }
  CheckpointManifest manifest = read_manifest(path);
  for (const StateFile& file : kStateFiles)
    if (require_file(path, file, manifest))
      manifest.checkpoint.state.*file.tensors = read_safetensors(path / file.name);
  return std::move(manifest.checkpoint);
}

std::optional<TrainingIdentity> read_identity(const fs::path& folder) {
  if (!has_manifest(folder)) return std::nullopt;
  return read_manifest(folder).checkpoint.identity;
}

void require_undamaged(const fs::path& file) {
  const auto known = std::ranges::find(kStateFiles, file.filename().string(), &StateFile::name);
  if (known == std::end(kStateFiles) || !has_manifest(file.parent_path())) return;
  require_file(file.parent_path(), *known, read_manifest(file.parent_path()));
}

bool read_newest(const fs::path& folder, const DamageReport& report, const std::function<void(const fs::path&)>& read) {
  const auto folders = checkpoint_folders(folder);
  if (folders.empty()) return false;
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) {
    try {
      read(*newest);
      return true;
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_data || !report) throw;
      report(error.what());
    }
  }
  throw Error(ExitCode::bad_data, Mistake{.where = folder.string(),
                                          .expected = "expected a checkpoint that is whole",
                                          .got = fmt::format("{} damaged", folders.size()),
                                          .advice = "get one back from a copy, or begin anew with another --out"});
}

std::optional<ResumePoint> newest_checkpoint(const fs::path& folder, const DamageReport& report) {
  std::optional<ResumePoint> point;
  read_newest(folder, report, [&](const fs::path& newest) {
    point = ResumePoint{.checkpoint = read_checkpoint(newest), .folder = newest};
  });
  return point;
}

std::vector<fs::path> put_aside_after(const fs::path& folder, int64_t step) {
  std::vector<fs::path> put;
  for (const fs::path& later : checkpoint_folders(folder)) {
    if (!in_order(step_name(step), later.filename().string())) continue;
    fs::path aside = later;
    aside += ".aside";
    std::error_code error;
    fs::remove_all(aside, error);
    fs::rename(later, aside, error);
    if (error)
      throw Error(ExitCode::io, Mistake{.where = later.string(),
                                        .expected = "could not put it aside, a checkpoint of a later step",
                                        .got = error.message(),
                                        .advice = "move it, or train in another --out"});
    put.push_back(aside);
  }
  return put;
}

std::vector<fs::path> checkpoint_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_checkpoint_name(entry.path().filename().string()) && fs::is_regular_file(entry.path() / kManifest, error))
      folders.push_back(entry.path());
  std::ranges::sort(folders, in_order, [](const fs::path& path) { return path.filename().string(); });
  return folders;
}

void remove_unfinished_checkpoints(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const size_t suffix = name.find(".tmp-");
    std::error_code ignored;
    if (suffix != std::string::npos && is_checkpoint_name(name.substr(0, suffix)))
      fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace dptrain::train
