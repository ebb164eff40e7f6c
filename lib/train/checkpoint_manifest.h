#pragma once

#include <map>
#include <string>

#include "train/checkpoint.h"

namespace dptrain::train {

/// A file of a checkpoint, as the manifest knows it.
struct CheckpointFile {
  uint64_t bytes = 0;
  std::string sha256;
};

/// What manifest.json says: the checkpoint without its tensors, and what files hold those.
struct CheckpointManifest {
  Checkpoint checkpoint;
  std::map<std::string, CheckpointFile> files;
};

std::string manifest_json(const Checkpoint& checkpoint, const std::map<std::string, CheckpointFile>& files);

/// Throws 65, naming `where` and the key, where the text isn't such a manifest.
CheckpointManifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace dptrain::train
