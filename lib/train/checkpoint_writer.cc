// Writes, replaces and removes checkpoints; checkpoint.cc reads them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "train/best_link.h"
#include "train/checkpoint.h"
#include "train/checkpoint_files.h"
#include "train/safetensors.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw Error(ExitCode::io,
                fmt::format("{}: could not be renamed to {}: {}", from.string(), to.string(), error.message()));
}

/// A new folder that is removed again unless it is moved to its target.
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

  /// Moves the folder to `target`. An existing target is moved away first and removed last. If the process is killed in
  /// between, both are left whole, and remove_unfinished_checkpoints chooses between them.
  void move_to(const fs::path& target) {
    sync_folder(path_);
    fs::path replaced = path_;
    replaced += ".replaced";
    std::error_code error;
    const bool replaces = fs::exists(target, error);
    if (replaces) rename_folder(target, replaced);
    try {
      rename_folder(path_, target);
    } catch (const Error&) {
      if (replaces) fs::rename(replaced, target, error);
      throw;
    }
    kept_ = true;
    make_durable(target);
    fs::remove_all(replaced, error);
  }

 private:
  static void make_durable(const fs::path& target) {
    try {
      sync_folder(target.parent_path());
    } catch (const Error& error) {
      throw Error(ExitCode::io, fmt::format("{}: the checkpoint is written, but a power cut may still lose it: {}",
                                            target.string(), error.what()));
    }
  }

  fs::path path_;
  bool kept_ = false;
};

/// Whether a folder has only files of a checkpoint; false if it can't be read.
bool holds_only_ours(const fs::path& checkpoint) {
  const auto is_ours = [](const std::string& name) {
    return name == kManifest || std::ranges::any_of(kStateFiles, [&](const auto& file) { return name == file.name; });
  };
  std::error_code error;
  fs::directory_iterator entry(checkpoint, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (!is_ours(entry->path().filename().string())) return false;
  return !error;
}

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code error;
  fs::path folder = checkpoint;
  // Renames the folder first, so that the next start finds the remains if this process is killed. A folder with files
  // of the user isn't renamed.
  if (holds_only_ours(checkpoint)) {
    folder += fmt::format("{}{}", kBeingWritten, ::getpid());
    fs::rename(checkpoint, folder, error);
    if (error) folder = checkpoint;
  }
  // The manifest goes first: a half-removed folder then isn't a checkpoint.
  fs::remove(folder / kManifest, error);
  for (const StateFile& file : kStateFiles) fs::remove(folder / file.name, error);
  fs::remove(folder, error);
}

/// Removes temporary files of manifests that were to replace the checkpoint's manifest.
void remove_half_manifests(const fs::path& checkpoint) {
  std::error_code error;
  for (const fs::path& entry : entries_of(checkpoint))
    if (entry.filename().string().starts_with(std::string(kManifest) + kBeingWritten)) fs::remove(entry, error);
}

/// Whether a checkpoint matches its manifest. Throws 74 if it can't be read, because it may still be whole.
bool is_whole(const fs::path& folder) {
  try {
    require_whole(folder);
    return true;
  } catch (const Error& error) {
    if (error.code() == ExitCode::io) throw;
    return false;
  }
}

}  // namespace

fs::path write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint, int64_t keep) {
  make_folder(folder);
  const fs::path target = folder / checkpoint_name(checkpoint.position.step);
  Aside aside(fmt::format("{}{}{}", target.string(), kBeingWritten, ::getpid()));
  std::map<std::string, WrittenFile> files;
  for (const StateFile& file : kStateFiles) {
    const auto& tensors = checkpoint.state.*file.tensors;
    if (file.always || !tensors.empty()) files[file.name] = write_safetensors(aside.path() / file.name, tensors);
  }
  write_file_atomically(aside.path() / kManifest, manifest_json(checkpoint, files));
  aside.move_to(target);
  remove_older_checkpoints(target, keep);
  return target;
}

void move_checkpoint(const fs::path& checkpoint, const TrainingPosition& position) {
  CheckpointManifest manifest = read_manifest(checkpoint);
  DPTRAIN_CHECK(manifest.checkpoint.position.step == position.step, "a checkpoint of step {} can't be one of {}",
                manifest.checkpoint.position.step, position.step);
  manifest.checkpoint.position = position;
  write_file_atomically(checkpoint / kManifest, manifest_json(manifest.checkpoint, manifest.files));
}

void remove_older_checkpoints(const fs::path& written, int64_t keep) {
  try {
    require_whole(written);
  } catch (const Error& error) {
    throw Error(ExitCode::io, fmt::format("{}: what is read back differs from what was written, so no older checkpoint "
                                          "is removed; is the disk failing? {}",
                                          written.string(), error.what()));
  }
  const auto folders = checkpoint_folders(written.parent_path());
  const auto best = linked_best(written.parent_path());
  for (size_t i = 0; i + static_cast<size_t>(keep) < folders.size(); ++i)
    if (folders[i].filename() != best.value_or("")) remove_checkpoint(folders[i]);
}

std::vector<fs::path> put_aside_after(const fs::path& folder, int64_t step) {
  std::vector<fs::path> put;
  for (const fs::path& later : checkpoint_folders(folder)) {
    if (!in_order(checkpoint_name(step), later.filename().string())) continue;
    std::error_code error;
    fs::path aside = later.string() + kPutAside;
    for (int number = 2; fs::exists(fs::symlink_status(aside, error)); ++number)
      aside = fmt::format("{}{}.{}", later.string(), kPutAside, number);
    fs::rename(later, aside, error);
    if (error)
      throw Error(ExitCode::io, Mistake{.where = later.string(),
                                        .expected = "could not move aside this checkpoint of a later step",
                                        .got = error.message(),
                                        .advice = "move it, or train in another --out"});
    put.push_back(aside);
  }
  return put;
}

void remove_unfinished_checkpoints(const fs::path& folder) {
  std::vector<fs::path> left = entries_of(folder);
  std::error_code error;
  // Of two folders for one step, sorting puts the new one before the one that it was to replace.
  std::ranges::sort(left);
  for (const fs::path& path : left) {
    const std::string name = path.filename().string();
    if (is_checkpoint_name(name)) remove_half_manifests(path);
    const size_t suffix = name.find(kBeingWritten);
    if (suffix == std::string::npos || !is_checkpoint_name(name.substr(0, suffix))) continue;
    const fs::path target = folder / name.substr(0, suffix);
    if (!fs::exists(target, error) && is_whole(path))
      rename_folder(path, target);
    else
      fs::remove_all(path, error);
  }
}

}  // namespace dptrain::train
