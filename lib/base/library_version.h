#pragma once

#include <string>

namespace dptrain {

/// A shared library, as it was when this program was built and as it was loaded.
struct LibraryVersion {
  std::string name;
  int built_major = 0;
  int built_minor = 0;
  int loaded_major = 0;  ///< 0: it wasn't found
  int loaded_minor = 0;
  int loaded_patch = 0;  ///< where it matters

  /// "cuDNN 9.19", "cuBLASLt (not found)"
  std::string text() const;
  /// Throws 71, naming both versions, where the major ones differ: their interfaces do.
  void require_fit() const;
};

}  // namespace dptrain
