#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint_manifest.h"

namespace dptrain::train {

// The files of a checkpoint's folder, shared by the code that writes and that reads them.

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kAverage = "average.safetensors";

/// A part of a training run's state and the file that holds it.
struct StateFile {
  const char* name;
  std::vector<nn::NamedValues> parallel::TrainingState::*tensors;
  bool always;  ///< written even if there are no tensors
};
constexpr StateFile kStateFiles[] = {{kWeights, &parallel::TrainingState::model, true},
                                     {"optimizer.safetensors", &parallel::TrainingState::optimizer, true},
                                     {kAverage, &parallel::TrainingState::average, false},
                                     {"compression.safetensors", &parallel::TrainingState::compression, false},
                                     {"replicas.safetensors", &parallel::TrainingState::replicas, false}};

/// "step-000938". Steps are padded to six digits; longer numbers are later steps.
std::string checkpoint_name(int64_t step);
bool is_checkpoint_name(const std::string& name);

/// Suffixes of a checkpoint's name. While it is written, a process number follows the suffix. Once it is put aside, a
/// number from 2 follows if the name was taken.
constexpr const char *kBeingWritten = ".tmp-", *kPutAside = ".aside";
/// Whether a folder beside checkpoints has such a suffix; folders with other names belong to the user.
bool is_checkpoint_remnant(const std::string& name);
/// Whether the step of `later` comes after the step of `name`.
bool in_order(const std::string& name, const std::string& later);

bool has_manifest(const std::filesystem::path& folder);
/// SHA-256 of a checkpoint's manifest, which contains the digests of its files; "" if it can't be read.
std::string manifest_sha256(const std::filesystem::path& folder);
/// Reads a folder's manifest. Throws 65, naming the manifest, if it is damaged.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// Whether the checkpoint has this file; false only if it need not have it. Throws 65, naming the file and the reason,
/// if the file doesn't match the manifest.
bool require_file(const std::filesystem::path& folder, const StateFile& file, const CheckpointManifest& manifest);

/// Reads the manifest and every file that it lists. Throws 65, naming the first file that doesn't match.
void require_whole(const std::filesystem::path& folder);

}  // namespace dptrain::train
