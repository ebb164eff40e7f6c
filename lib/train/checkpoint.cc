#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "train/checkpoint_files.h"
#include "train/run_state.h"
#include "train/safetensors.h"

namespace dptrain::train {

namespace fs = std::filesystem;

namespace {

/// Throws 65 if a folder with a checkpoint's name has no manifest.
void require_manifest(const fs::path& folder) {
  if (has_manifest(folder)) return;
  throw Error(ExitCode::bad_data, Mistake{.where = (folder / kManifest).string(),
                                          .expected = "expected the manifest of a checkpoint",
                                          .got = "none",
                                          .advice = "restore it from a copy, or use another checkpoint"});
}

/// The sentence without the advice to use another checkpoint.
std::string without_advice(std::string damage) {
  for (const std::string_view advice :
       {"; restore it from a copy, or use another checkpoint", "; use another checkpoint"})
    if (damage.ends_with(advice)) damage.resize(damage.size() - advice.size());
  return damage;
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& path) {
  if (!has_manifest(path)) {
    require_readable_folder(path);
    std::error_code error;
    throw Error(ExitCode::missing_file,
                Mistake{.where = path.string(),
                        .expected = "expected a run directory with a checkpoint, or a checkpoint's folder "
                                    "with manifest.json",
                        .got = fs::exists(path, error) ? "neither" : "nothing there",
                        .advice = advice_on_runs()});
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
  std::exception_ptr unread;
  std::vector<std::string> damages;
  const auto report_all = [&](const std::string& end) {
    for (const std::string& damage : damages) report(damage + end);
  };
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) {
    try {
      require_manifest(*newest);
      read(*newest);
    } catch (const Error& error) {
      if ((error.code() != ExitCode::bad_data && error.code() != ExitCode::io) || !report) {
        report_all("");
        throw;
      }
      if (error.code() == ExitCode::io && !unread) unread = std::current_exception();
      damages.push_back(without_advice(error.what()));
      continue;
    }
    report_all(fmt::format("; using {} instead", newest->string()));
    return true;
  }
  report_all("");
  if (unread) std::rethrow_exception(unread);
  throw Error(ExitCode::bad_data, Mistake{.where = folder.string(),
                                          .expected = "expected an undamaged checkpoint",
                                          .got = fmt::format("{} damaged", folders.size()),
                                          .advice = "restore one from a copy, or start a new run with another --out"});
}

std::optional<ResumePoint> newest_checkpoint(const fs::path& folder, const DamageReport& report) {
  std::optional<ResumePoint> point;
  read_newest(folder, report, [&](const fs::path& newest) {
    point = ResumePoint{.checkpoint = read_checkpoint(newest), .folder = newest};
  });
  return point;
}

std::vector<fs::path> checkpoint_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const fs::path& entry : entries_of(folder)) {
    if (!is_checkpoint_name(entry.filename().string())) continue;
    std::error_code error;
    const fs::file_type manifest = fs::status(entry / kManifest, error).type();
    // A folder whose manifest can't be looked at counts, and so does one with weights but no manifest: reading it
    // reports why it is damaged.
    if (manifest == fs::file_type::regular || manifest == fs::file_type::none ||
        fs::is_regular_file(entry / kWeights, error))
      folders.push_back(entry);
  }
  std::ranges::sort(folders, in_order, [](const fs::path& path) { return path.filename().string(); });
  return folders;
}

}  // namespace dptrain::train
