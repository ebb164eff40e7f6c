#include "train/checkpoint_files.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"

namespace dptrain::train {

namespace fs = std::filesystem;

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:06}", step); }

bool is_checkpoint_name(const std::string& name) {
  int64_t step = 0;
  const char* const begin = name.data() + std::string_view("step-").size();
  return name.starts_with("step-") && std::from_chars(begin, name.data() + name.size(), step).ec == std::errc() &&
         name == checkpoint_name(step);
}

bool is_checkpoint_remnant(const std::string& name) {
  const size_t suffix = name.find('.');
  if (suffix == std::string::npos || !is_checkpoint_name(name.substr(0, suffix))) return false;
  const std::string_view rest = std::string_view(name).substr(suffix);
  return rest.starts_with(kBeingWritten) || rest == kPutAside || rest.starts_with(std::string(kPutAside) + ".");
}

bool in_order(const std::string& name, const std::string& later) {
  return std::pair(name.size(), name) < std::pair(later.size(), later);
}

bool has_manifest(const fs::path& folder) {
  std::error_code error;
  const fs::file_status manifest = fs::status(folder / kManifest, error);
  if (manifest.type() == fs::file_type::none) {
    require_readable_folder(folder);
    throw Error(ExitCode::io, fmt::format("{}: could not be read: {}", (folder / kManifest).string(), error.message()));
  }
  return fs::is_regular_file(manifest);
}

std::string manifest_sha256(const fs::path& folder) {
  try {
    return sha256_of_file(folder / kManifest);
  } catch (const Error&) {
    return {};
  }
}

CheckpointManifest read_manifest(const fs::path& folder) {
  return parse_manifest(read_file(folder / kManifest, size_t{1} << 24), (folder / kManifest).string());
}

bool require_file(const fs::path& folder, const StateFile& file, const CheckpointManifest& manifest) {
  const auto listed = manifest.files.find(file.name);
  if (listed == manifest.files.end() && !file.always) return false;
  const WrittenFile known = listed == manifest.files.end() ? WrittenFile{} : listed->second;
  const fs::path path = folder / file.name;
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw Error(ExitCode::bad_data,
                Mistake{.where = path.string(),
                        .expected = expected,
                        .got = got,
                        .advice = "the file is damaged or from another checkpoint; use another checkpoint"});
  };
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) refuse("expected this file, which manifest.json names", "none");
  if (bytes != known.bytes) refuse(fmt::format("expected {} bytes", known.bytes), fmt::format("{}", bytes));
  const std::string digest = sha256_of_file(path);
  if (digest != known.sha256) refuse(fmt::format("expected SHA-256 {}", known.sha256), digest);
  return true;
}

void require_whole(const fs::path& folder) {
  const CheckpointManifest manifest = read_manifest(folder);
  for (const StateFile& file : kStateFiles) require_file(folder, file, manifest);
}

}  // namespace dptrain::train
