#pragma once

#include <string>
#include <vector>

#include "train/verification.h"

namespace dptrain::train {

/// The contents of a verification's report.
struct VerificationReport {
  std::vector<VerifiedRow> rows;
  int64_t steps = 1;

  /// A table and sentences, in lines of at most `width` characters.
  std::string text(int width) const;
  /// One document; docs/verify.schema.json is its schema.
  std::string json() const;
  /// One sentence for each strategy that diverges: the first place and the difference.
  std::vector<std::string> failures() const;
};

}  // namespace dptrain::train
