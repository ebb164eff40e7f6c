#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/cache_folders.h"
#include "data/file_identity.h"

namespace dptrain {

/// A digest of what a file holds, which is kept, so that the next start needn't read the file for it.
struct KeptDigest {
  FileIdentity file;  ///< taken before the content was read
  std::string what;   ///< of the file it is the digest of, and as what it was checked; one line
  std::vector<std::filesystem::path> folders = cache_folders(file.path);  ///< see cache_folders.h

  /// The kept one; else what `compute` returns (64 hex digits), which is kept in the first folder that can be written,
  /// in none where none can be. It counts for the same path, size, times and inode alone; one of another file, one that
  /// is damaged and one that can't be read are made anew. Of a file that has only just changed none is kept. It is a
  /// small file <name>.<digits>.digest, written aside and renamed: any number of processes may do so at once.
  std::string get(const std::function<std::string()>& compute) const;
};

}  // namespace dptrain
