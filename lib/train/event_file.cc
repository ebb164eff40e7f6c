#include "train/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/host_name.h"
#include "train/event_record.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;

/// The prefix by which TensorBoard recognizes event files.
constexpr std::string_view kBeginning = "events.out.tfevents.";

bool is_event_file(const fs::path& path) {
  std::error_code unreadable;
  return path.filename().string().starts_with(kBeginning) && fs::is_regular_file(path, unreadable);
}

/// The time in an event file's name; 0 if there is none.
int64_t seconds_in(const fs::path& path) {
  const std::string rest = path.filename().string().substr(kBeginning.size());
  int64_t seconds = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), seconds);
  return seconds;
}

}  // namespace

EventFile::EventFile(const fs::path& folder) {
  make_folder(folder);
  auto seconds = static_cast<int64_t>(event_time_s());
  for (const fs::path& other : entries_of(folder))
    if (is_event_file(other)) seconds = std::max(seconds, seconds_in(other) + 1);
  path_ = folder / fmt::format("{}{:010}.{}", kBeginning, seconds, host_name());
  append(version_record(event_time_s()), Sync::later);
}

double event_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool has_event_files(const fs::path& folder) { return std::ranges::any_of(entries_of(folder), is_event_file); }

void remove_event_files(const fs::path& folder, std::error_code& error) {
  if (!fs::is_directory(folder, error)) return error.clear();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_event_file(entry.path())) files.push_back(entry.path());
  for (const fs::path& file : files)
    if (!error) fs::remove(file, error);
  std::error_code not_empty;
  if (!fs::is_symlink(folder, not_empty)) fs::remove(folder, not_empty);
}

}  // namespace dptrain::train
