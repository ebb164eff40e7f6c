#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "nn/named_values.h"

namespace dptrain::train {

/// The size and digest of a file as it was written; only reading it back shows whether the disk has kept it.
struct WrittenFile {
  uint64_t bytes = 0;
  std::string sha256;
};

/// Writes tensors in the safetensors format (eight bytes of header length, a JSON header, the data), as f32, in name
/// order. The file appears whole or not at all. Throws 74.
WrittenFile write_safetensors(const std::filesystem::path& path, const std::vector<nn::NamedValues>& tensors);

/// Reads a file in the safetensors format. Throws 66 if it is missing. Throws 65, naming the tensor, what was expected
/// and what was found, for anything that isn't a well-formed file of f32 tensors whose data follow each other without
/// holes or overlaps. The batch counts of PyTorch's batch norms (i64, "...num_batches_tracked") are skipped.
std::vector<nn::NamedValues> read_safetensors(const std::filesystem::path& path);

/// Throws 65, naming `where` and the tensor, if a value isn't finite.
void require_finite_tensors(const std::vector<nn::NamedValues>& tensors, const std::string& where);

/// SHA-256 over tensors in name order. For each tensor it hashes the name, "F32" and the shape ("[20, 1, 5, 5]"), each
/// followed by a newline, then the tensor's bytes in little-endian order. Bit-identical tensors have equal hashes.
class WeightsHash {
 public:
  void add(const nn::NamedValues& tensor);
  /// The hash as 64 hex digits.
  std::string hex_digest() { return hash_.hex_digest(); }

 private:
  Sha256 hash_;
};

/// The WeightsHash of tensors that may be in any order.
std::string weights_hash(const std::vector<nn::NamedValues>& tensors);

}  // namespace dptrain::train
