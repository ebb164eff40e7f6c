#include "train/best_link.h"

#include <fmt/format.h>

#include "base/error.h"
#include "train/checkpoint_files.h"

namespace dptrain::train {

namespace fs = std::filesystem;

namespace {

constexpr const char *kBest = "best", *kBestBeingMade = "best.new";

}  // namespace

fs::path best_link(const fs::path& checkpoints) { return checkpoints / kBest; }

std::optional<std::string> linked_best(const fs::path& checkpoints) {
  std::error_code none;
  const fs::path linked = fs::read_symlink(best_link(checkpoints), none);
  if (none || !is_checkpoint_name(linked.string())) return std::nullopt;
  return linked.string();
}

void require_place_of_best(const fs::path& checkpoints) {
  for (const char* name : {kBest, kBestBeingMade}) {
    std::error_code error;
    const auto there = fs::symlink_status(checkpoints / name, error);
    if (!fs::exists(there) || fs::is_symlink(there)) continue;
    throw Error(ExitCode::io, Mistake{.where = (checkpoints / name).string(),
                                      .expected = "expected a link to the best checkpoint, or nothing",
                                      .got = fs::is_directory(there) ? "a folder" : "a file",
                                      .advice = "give it another name"});
  }
}

void require_links(const fs::path& checkpoints) {
  const fs::path trial = checkpoints / kBestBeingMade;
  std::error_code error;
  fs::remove(trial, error);
  fs::create_directories(checkpoints, error);
  if (!error) fs::create_directory_symlink(kBest, trial, error);
  if (error)
    throw Error(ExitCode::io,
                Mistake{.where = checkpoints.string(),
                        .expected = "expected a folder in which a link to the best checkpoint can be made",
                        .got = error.message(),
                        .advice = "choose another --out"});
  fs::remove(trial, error);
}

void link_best(const fs::path& checkpoints, int64_t step) {
  const std::string name = checkpoint_name(step);
  if (!has_manifest(checkpoints / name)) return unlink_best(checkpoints);
  if (linked_best(checkpoints) == name) return;
  require_place_of_best(checkpoints);
  const fs::path link = best_link(checkpoints);
  std::error_code error;
  // Renaming the new link over the old one means that one of them always exists.
  const fs::path aside = checkpoints / kBestBeingMade;
  fs::remove(aside, error);
  fs::create_directory_symlink(name, aside, error);
  if (!error) fs::rename(aside, link, error);
  if (error)
    throw Error(ExitCode::io, fmt::format("{}: could not be linked to {}: {}", link.string(), name, error.message()));
}

void unlink_best(const fs::path& checkpoints) {
  std::error_code error;
  for (const char* name : {kBest, kBestBeingMade})
    if (fs::is_symlink(checkpoints / name, error)) fs::remove(checkpoints / name, error);
}

}  // namespace dptrain::train
