#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dptrain {

/// SHA-256 (FIPS 180-4), fed in pieces.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 hex digits. Call once, after the last update.
  std::string hex_digest();

 private:
  void compress(const std::byte* blocks, size_t count);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

/// The digest of a text.
std::string sha256_of(std::string_view text);
/// The digest of a whole file. Throws 74 where it can't be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace dptrain
