#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <set>

#include "comm/job_failure.h"
#include "comm/process_wire.h"

namespace dptrain {

/// What a process knows of a job's failure, as one message to or from another one.
struct FailureNews {
  /// As short as MPI sends at once, without asking the receiver first: who tells it may be gone when it is read.
  static constexpr size_t kBytes = 2048;
  int peer = 0;
  std::array<std::byte, kBytes> bytes{};
  std::unique_ptr<WireMessage> message;

  /// `gone`: processes that nothing is expected of. What doesn't fit is left out.
  void write(const KnownFailure& known, const std::set<int>& gone);
  /// What another process knows; those that are gone are added to `gone`.
  KnownFailure read(std::set<int>& gone) const;
};

}  // namespace dptrain
