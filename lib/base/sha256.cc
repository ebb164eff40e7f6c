#include "base/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <fstream>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file_progress.h"

namespace dptrain {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  DPTRAIN_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                "OpenSSL offers no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  DPTRAIN_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL's SHA-256 failed");
}

void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::hex_digest() {
  std::array<unsigned char, 32> digest;
  DPTRAIN_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1, "OpenSSL's SHA-256 failed");
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex_digest();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(size_t{1} << 20);
  Sha256 hash;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    count_file_piece();
    hash.update(std::as_bytes(std::span(block).first(static_cast<size_t>(file.gcount()))));
  }
  if (!file.eof()) throw Error(ExitCode::io, path.string() + ": could not be read");
  return hash.hex_digest();
}

}  // namespace dptrain
