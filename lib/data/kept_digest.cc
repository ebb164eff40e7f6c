#include "data/kept_digest.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace dptrain {
namespace {

constexpr size_t kDigits = 64;
constexpr size_t kMostBytes = 65536;

/// The text before the digest.
std::string beginning(const KeptDigest& digest) {
  const FileIdentity& file = digest.file;
  return fmt::format(
      "dptrain digest 1\nof {}\nin {}\nbytes {}\nmodified_ns "
      "{}\nchanged_ns {}\ninode {}\nsha256 ",
      digest.what, file.path.string(), file.bytes, file.modified_ns, file.changed_ns, file.inode);
}

/// The name depends on the file's path and on the part of the file, because files of all folders share the user's
/// cache.
std::string name_of(const KeptDigest& digest) {
  const std::string of = sha256_of(fmt::format("{}\n{}", digest.file.path.string(), digest.what));
  return fmt::format("{}.{}.digest", digest.file.path.filename().string(), of.substr(0, 12));
}

std::string with_checksum(const std::string& text) { return fmt::format("{}\nchecksum {}\n", text, sha256_of(text)); }

std::optional<std::string> read(const std::filesystem::path& path, const std::string& beginning) {
  try {
    const std::string text = read_file(path, kMostBytes);
    if (!text.starts_with(beginning) || text.size() < beginning.size() + kDigits) return std::nullopt;
    if (text != with_checksum(text.substr(0, beginning.size() + kDigits))) return std::nullopt;
    return text.substr(beginning.size(), kDigits);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool write(const std::filesystem::path& folder, const std::string& name, const std::string& text) {
  try {
    make_folder(folder);
    write_file_atomically(folder / name, text);
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::io) throw;
    return false;
  }
}

}  // namespace

std::string KeptDigest::get(const std::function<std::string()>& compute) const {
  const std::string name = name_of(*this), text = beginning(*this);
  for (const auto& folder : folders)
    if (auto kept = read(folder / name, text)) return *std::move(kept);
  const std::string digest = compute();
  if (file.is_settled)
    for (const auto& folder : folders)
      if (write(folder, name, with_checksum(text + digest))) break;
  return digest;
}

}  // namespace dptrain
