#pragma once

#include <string>
#include <vector>

#include "parallel/replica.h"

namespace dptrain::parallel {

/// What the stages of a pipeline have to know of each other, also where they lie in other processes.
struct StageFacts {
  bool shares_statistics = false;            ///< in its passes
  std::vector<std::string> parameters = {};  ///< by name, those borrowed from other stages too
  std::vector<std::string> borrowed = {};

  static StageFacts of(const Replica& part);

  /// As a message, and from one.
  std::string text() const;
  static StageFacts of_text(const std::string& text);
};

}  // namespace dptrain::parallel
