#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/cache_folders.h"
#include "data/file_identity.h"

namespace dptrain {

/// A digest of a file's content that is kept, so that the next start needn't read the file.
struct KeptDigest {
  FileIdentity file;  ///< taken before the content was read
  std::string what;   ///< the part of the file that it covers and how that was checked; one line
  std::vector<std::filesystem::path> folders = cache_folders(file.path);  ///< see cache_folders.h

  /// Returns the kept digest; if there is none, returns what `compute` returns (64 hex digits) and keeps it in the
  /// first folder that can be written, if any. A kept digest is valid only for the same path, size, times and inode. A
  /// digest of another file, a damaged one and one that can't be read are made again. No digest is kept of a file that
  /// has only just changed. A digest is a small file <name>.<digits>.digest, written aside and renamed, so that any
  /// number of processes may do this at once.
  std::string get(const std::function<std::string()>& compute) const;
};

}  // namespace dptrain
