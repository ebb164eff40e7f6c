#pragma once

#include <string>

namespace dptrain {

/// The versions of a shared library: the one that this program was built with, and the one that was loaded.
struct LibraryVersion {
  std::string name;
  int built_major = 0;
  int built_minor = 0;
  int loaded_major = 0;  ///< 0: it wasn't found
  int loaded_minor = 0;
  int loaded_patch = 0;  ///< only set if it matters

  /// The name and version: "cuDNN 9.19", "cuBLASLt (not found)".
  std::string text() const;
  /// Throws an error with exit code 71 that names both versions if the major versions differ, since their interfaces
  /// do.
  void require_fit() const;
};

}  // namespace dptrain
