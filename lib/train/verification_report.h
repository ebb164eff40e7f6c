#pragma once

#include <string>
#include <vector>

#include "train/verification.h"

namespace dptrain::train {

/// What is told of a verification.
struct VerificationReport {
  std::vector<VerifiedRow> rows;
  int64_t steps = 1;

  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/verify.schema.json is its schema.
  std::string json() const;
  /// A sentence for each strategy that diverges: where first, and how far.
  std::vector<std::string> failures() const;
};

}  // namespace dptrain::train
