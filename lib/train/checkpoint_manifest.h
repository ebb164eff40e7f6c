#pragma once

#include <map>
#include <string>

#include "train/checkpoint.h"
#include "train/safetensors.h"

namespace dptrain::train {

/// The contents of manifest.json: the checkpoint without its tensors, and the files that hold the tensors.
struct CheckpointManifest {
  Checkpoint checkpoint;
  std::map<std::string, WrittenFile> files;
};

std::string manifest_json(const Checkpoint& checkpoint, const std::map<std::string, WrittenFile>& files);

/// Parses a manifest. Throws 65, naming `where` and the key, if the text isn't one.
CheckpointManifest parse_manifest(const std::string& text, const std::string& where);

}  // namespace dptrain::train
