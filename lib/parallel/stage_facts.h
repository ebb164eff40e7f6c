#pragma once

#include <string>
#include <vector>

#include "parallel/replica.h"

namespace dptrain::parallel {

/// Facts about a device's stages that the other devices of a pipeline need, even in other processes.
struct StageFacts {
  bool shares_statistics = false;            ///< in its passes
  std::vector<std::string> parameters = {};  ///< names of its parameters, including those borrowed from other stages
  std::vector<std::string> borrowed = {};

  static StageFacts of(const Replica& part);

  /// Converts to and from a message.
  std::string text() const;
  static StageFacts of_text(const std::string& text);
};

}  // namespace dptrain::parallel
