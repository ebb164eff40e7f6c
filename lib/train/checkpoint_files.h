#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint_manifest.h"

namespace dptrain::train {

// What a checkpoint's folder is made of, to those that write and read it.

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kAverage = "average.safetensors";

/// The parts of a training's state that files hold.
struct StateFile {
  const char* name;
  std::vector<nn::NamedValues> parallel::TrainingState::*tensors;
  bool always;  ///< also where there are no tensors
};
constexpr StateFile kStateFiles[] = {{kWeights, &parallel::TrainingState::model, true},
                                     {"optimizer.safetensors", &parallel::TrainingState::optimizer, true},
                                     {kAverage, &parallel::TrainingState::average, false},
                                     {"compression.safetensors", &parallel::TrainingState::compression, false},
                                     {"replicas.safetensors", &parallel::TrainingState::replicas, false}};

/// "step-000938". Steps are padded to six digits; a longer number is a later step.
std::string checkpoint_name(int64_t step);
bool is_checkpoint_name(const std::string& name);

/// What stands behind a checkpoint's name while it is written, with a process's number, and once it was put aside, with
/// a number from 2 where that name was taken.
constexpr const char *kBeingWritten = ".tmp-", *kPutAside = ".aside";
/// Whether a folder of that name beside checkpoints is such a one; others are somebody's own.
bool is_checkpoint_remnant(const std::string& name);
/// Whether the step of `later` comes after that of `name`.
bool in_order(const std::string& name, const std::string& later);

bool has_manifest(const std::filesystem::path& folder);
/// SHA-256 of a checkpoint's manifest, which has those of its files; "" where it can't be read.
std::string manifest_sha256(const std::filesystem::path& folder);
/// Throws 65, naming the manifest, where it is damaged.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// Throws 65, naming the file and the reason, where the file isn't the one that the manifest speaks of. False where the
/// checkpoint has no such file, and need not have it.
bool require_file(const std::filesystem::path& folder, const StateFile& file, const CheckpointManifest& manifest);

/// Reads the manifest and every file that it speaks of. Throws 65, naming the first that isn't as it says.
void require_whole(const std::filesystem::path& folder);

}  // namespace dptrain::train
