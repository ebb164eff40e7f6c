#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace dptrain::train {

/// A file of events, which TensorBoard reads while it grows.
class EventFile {
 public:
  /// Begins a file in `folder`, and makes the folder if it is missing. TensorBoard reads files in the order of their
  /// names, which begin with a time in seconds; the new name comes after all existing ones. Throws 74.
  explicit EventFile(const std::filesystem::path& folder);

  /// Appends records (event_record.h) as a whole. Throws 74, and then leaves nothing of them.
  void append(std::string_view records, Sync sync) { append_bytes(path_, records, sync); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The current time for an event: seconds since 1970.
double event_time_s();

/// Whether the folder has an event file. Throws 74 if the folder can't be read.
bool has_event_files(const std::filesystem::path& folder);

/// Removes the event files in the folder. Removes the folder too if it is then empty and isn't a link.
void remove_event_files(const std::filesystem::path& folder, std::error_code& error);

}  // namespace dptrain::train
