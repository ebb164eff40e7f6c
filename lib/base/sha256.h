#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace dptrain {

/// SHA-256 (FIPS 180-4), fed in pieces. It uses OpenSSL, which uses the processor's instructions for it.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// 64 hex digits. Call once, after the last update.
  std::string hex_digest();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// The digest of a text.
std::string sha256_of(std::string_view text);
/// The digest of a whole file. Throws an error with exit code 74 if the file can't be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace dptrain
