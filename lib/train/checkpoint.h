#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/training_state.h"
#include "train/position.h"
#include "train/strategy_choice.h"

namespace dptrain::train {

/// Names and values of what defines a training run. A training run goes on from a checkpoint only if all of them are
/// equal.
using TrainingIdentity = std::vector<std::pair<std::string, std::string>>;

struct Checkpoint {
  TrainingIdentity identity;
  std::string config_hash;           ///< of the resolved configuration
  std::vector<std::string> devices;  ///< the devices that it was trained on
  TrainingPosition position;
  /// The weights by which the devices share a batch, if they were measured.
  std::vector<int64_t> split = {};
  /// The choice that `strategy: auto` made.
  std::optional<StrategyChoice> choice = {};
  parallel::TrainingState state;
};

/// Writes `folder`/step-NNNNNN: model.safetensors, optimizer.safetensors, further files of the state that has tensors
/// (average.safetensors and others), and manifest.json with the size and SHA-256 of each. Everything is written to a
/// temporary folder, synced and renamed, so that a checkpoint is there whole or not at all. A checkpoint of the same
/// step is replaced, and removed only after that. Older checkpoints are then removed as by remove_older_checkpoints.
/// Returns the checkpoint's folder. Throws 74; if only the rename could not be made durable, the sentence says that the
/// checkpoint is there.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint, int64_t keep);

/// Changes the position in the manifest of `checkpoint`, the folder of a whole checkpoint, to another one of the same
/// step: the tensors are the same for both. The manifest is replaced as a whole. Throws 74; 65 if the manifest is
/// damaged.
void move_checkpoint(const std::filesystem::path& checkpoint, const TrainingPosition& position);

/// Reads `written`, a checkpoint's folder, back. Then removes the checkpoints beside it that are older than the newest
/// `keep`, except the one that is linked as the best (best_link.h). Throws 74 if `written` doesn't match its manifest;
/// nothing is removed then.
void remove_older_checkpoints(const std::filesystem::path& written, int64_t keep);

/// Reads a checkpoint's folder. Throws 66 if it is missing; 65, naming file and reason, if a file doesn't match the
/// manifest.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// The identity of the checkpoint in this folder, read from its manifest alone; nothing if it has none. Throws 65,
/// naming the manifest, if the manifest is damaged.
std::optional<TrainingIdentity> read_identity(const std::filesystem::path& folder);

/// Throws 65, naming the file and the reason, if `file` doesn't match the manifest beside it. A file passes if it has
/// no manifest beside it, or if its name isn't one of a checkpoint's files.
void require_undamaged(const std::filesystem::path& file);

/// Called with a sentence for each checkpoint that is found damaged. The sentence also names the checkpoint that is
/// used instead, if there is one.
using DamageReport = std::function<void(const std::string& damage)>;

/// Calls `read` with the newest checkpoint in `folder`, then with the one before, until `read` doesn't throw 65. Each
/// damaged one is passed to `report` at the end. Returns false if there is no checkpoint. Throws 65 if all of them are
/// damaged, or, without `report`, if the newest is.
bool read_newest(const std::filesystem::path& folder, const DamageReport& report,
                 const std::function<void(const std::filesystem::path& checkpoint)>& read);

/// A checkpoint to go on from, and its folder.
struct ResumePoint {
  Checkpoint checkpoint;
  std::filesystem::path folder;
};

/// The newest undamaged checkpoint in `folder`, as read_newest finds it; nothing if there is none. Throws 65 if all of
/// them are damaged, so that a new training doesn't replace their contents without being asked to.
std::optional<ResumePoint> newest_checkpoint(const std::filesystem::path& folder, const DamageReport& report);

/// Renames the checkpoints of later steps to step-NNNNNN.aside, because training goes on from an earlier one and theirs
/// is a different course. If that name is taken, uses step-NNNNNN.aside.2 and so on. Returns their new folders.
std::vector<std::filesystem::path> put_aside_after(const std::filesystem::path& folder, int64_t step);

/// Removes half-written checkpoints that a killed process left. A whole one gets its proper name if there is no
/// checkpoint of its step. Throws 74.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);

/// The folders of checkpoints, by step, including damaged ones. A folder with neither manifest.json nor weights isn't a
/// checkpoint.
std::vector<std::filesystem::path> checkpoint_folders(const std::filesystem::path& folder);

}  // namespace dptrain::train
