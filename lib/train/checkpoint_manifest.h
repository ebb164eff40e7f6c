#pragma once

#include <map>
#include <string>

#include "train/checkpoint.h"
#include "train/safetensors.h"

namespace dptrain::train {

/// What manifest.json says: the checkpoint without its tensors, and what files hold those.
struct CheckpointManifest {
  Checkpoint checkpoint;
  std::map<std::string, WrittenFile> files;
};

std::string manifest_json(const Checkpoint& checkpoint, const std::map<std::string, WrittenFile>& files);

/// Throws 65, naming `where` and the key, where the text isn't such a manifest.
CheckpointManifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace dptrain::train
