#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace dptrain::train {

/// A file of events, which TensorBoard follows while it grows.
class EventFile {
 public:
  /// Begins a file in `folder`, which is made where there is none. TensorBoard reads files in the order of their names,
  /// which begin with a time in seconds: this one comes after all that are there. Throws 74.
  explicit EventFile(const std::filesystem::path& folder);

  /// Appends records (event_record.h) whole. Throws 74; nothing of them is left then.
  void append(std::string_view records, Sync sync) { append_bytes(path_, records, sync); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What an event has as the time at which it is written: seconds since 1970.
double event_time_s();

/// Whether some file of events lies in the folder. Throws 74 where that can't be read.
bool has_event_files(const std::filesystem::path& folder);

/// Removes the files of events in the folder, and with the last of what lies in it the folder, unless that is a link.
void remove_event_files(const std::filesystem::path& folder, std::error_code& error);

}  // namespace dptrain::train
