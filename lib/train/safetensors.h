#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "nn/named_values.h"

namespace dptrain::train {

/// What was handed to the disk as a file; it has still to be seen whether that gives the same back.
struct WrittenFile {
  uint64_t bytes = 0;
  std::string sha256;
};

/// Writes tensors in the safetensors format (eight bytes of header length, a JSON header, the data), as f32, in name
/// order. The file appears whole or not at all. Throws 74.
WrittenFile write_safetensors(const std::filesystem::path& path, const std::vector<nn::NamedValues>& tensors);

/// Reads such a file. Throws 66 where it is missing; 65, naming the tensor, what was expected and what was found, for
/// anything that is not a well-formed file of f32 tensors whose data lie one after the other without holes or overlaps.
/// The counts of batches (i64, "...num_batches_tracked") of PyTorch's batch norms are passed over.
std::vector<nn::NamedValues> read_safetensors(const std::filesystem::path& path);

/// Throws 65, naming `where` and the tensor, where a value isn't finite.
void require_finite_tensors(const std::vector<nn::NamedValues>& tensors, const std::string& where);

/// SHA-256 over tensors in the order of their names: for each its name, "F32" and its shape ("[20, 1, 5, 5]"), each
/// ended by a newline, then its bytes in little-endian order. Equal for equal bits.
class WeightsHash {
 public:
  void add(const nn::NamedValues& tensor);
  /// In 64 hex digits.
  std::string hex_digest() { return hash_.hex_digest(); }

 private:
  Sha256 hash_;
};

/// That of tensors in any order.
std::string weights_hash(const std::vector<nn::NamedValues>& tensors);

}  // namespace dptrain::train
