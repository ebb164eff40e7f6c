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

/// What a training is of. It goes on only where these are the same: name and value.
using TrainingIdentity = std::vector<std::pair<std::string, std::string>>;

struct Checkpoint {
  TrainingIdentity identity;
  std::string config_hash;           ///< of the resolved configuration
  std::vector<std::string> devices;  ///< that it was trained on
  TrainingPosition position;
  /// The weights by which the devices share a batch, where they were measured.
  std::vector<int64_t> split = {};
  /// Of `strategy: auto`.
  std::optional<StrategyChoice> choice = {};
  parallel::TrainingState state;
};

/// Writes `folder`/step-NNNNNN: model.safetensors, optimizer.safetensors, average.safetensors where there is one, and
/// manifest.json with the size and SHA-256 of each. All of it is written aside, synced and renamed, so that a
/// checkpoint is there whole or not at all; one of the same step is replaced, and removed only then. Those before the
/// newest `keep` follow, as remove_older_checkpoints does it. Returns the checkpoint's folder. Throws 74; where only
/// its name could not be made durable, the sentence says that it is there.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint, int64_t keep);

/// Says in the manifest of `checkpoint`, a whole one's folder, that the training is at `position`, of the same step:
/// its tensors are those of both. The manifest is replaced whole. Throws 74; 65 where it is damaged.
void move_checkpoint(const std::filesystem::path& checkpoint, const TrainingPosition& position);

/// Reads `written`, a checkpoint's folder, back, then removes the checkpoints beside it that come before the newest
/// `keep`, but for the one that is linked as the best (best_link.h). Throws 74 where it isn't what its manifest says;
/// then none is removed.
void remove_older_checkpoints(const std::filesystem::path& written, int64_t keep);

/// Reads a checkpoint's folder. Throws 66 where it is missing; 65, naming file and reason, where a file isn't the one
/// that the manifest speaks of.
Checkpoint read_checkpoint(const std::filesystem::path& path);

/// What the checkpoint in this folder is of, by its manifest alone; nothing where it has none. Throws 65, naming the
/// manifest, where that is damaged.
std::optional<TrainingIdentity> read_identity(const std::filesystem::path& folder);

/// Throws 65, naming the file and the reason, where the manifest beside `file` knows another file of its name. What
/// lies beside no manifest, or isn't a checkpoint's file by its name, passes.
void require_undamaged(const std::filesystem::path& file);

/// Is told of a checkpoint that was found damaged.
using DamageReport = std::function<void(const std::string& damage)>;

/// Calls `read` with the newest checkpoint in `folder`, then with the one before, until one doesn't throw 65; each that
/// does is told to `report`. False where there is none. Throws 65 where all of them are damaged, and without `report`
/// where the newest is.
bool read_newest(const std::filesystem::path& folder, const DamageReport& report,
                 const std::function<void(const std::filesystem::path& checkpoint)>& read);

/// A checkpoint to go on from, and where it lies.
struct ResumePoint {
  Checkpoint checkpoint;
  std::filesystem::path folder;
};

/// The newest checkpoint in `folder` that reads well, as read_newest finds it; nothing where there is none. Throws 65
/// where all of them are damaged: what they hold isn't to be replaced by a new training unasked.
std::optional<ResumePoint> newest_checkpoint(const std::filesystem::path& folder, const DamageReport& report);

/// Puts aside the checkpoints of later steps, as step-NNNNNN.aside: training goes on from an earlier one, and theirs is
/// another way. Where that name is taken, as step-NNNNNN.aside.2 and so on. Returns their new folders.
std::vector<std::filesystem::path> put_aside_after(const std::filesystem::path& folder, int64_t step);

/// Removes what a killed process left half written. What it left whole takes its place, where there is none of its
/// step. Throws 74.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);

/// The folders of checkpoints, by step, damaged ones among them. One that has neither manifest.json nor weights is
/// none.
std::vector<std::filesystem::path> checkpoint_folders(const std::filesystem::path& folder);

}  // namespace dptrain::train
