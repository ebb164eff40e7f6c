#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <set>

#include "comm/job_failure.h"
#include "comm/process_wire.h"

namespace dptrain {

/// What a process knows of a job's failure, as one message to or from another process.
struct FailureNews {
  /// Small enough that MPI sends it at once, without asking the receiver first. The sender may have ended when it is
  /// read.
  static constexpr size_t kBytes = 2048;
  int peer = 0;
  std::array<std::byte, kBytes> bytes{};
  std::unique_ptr<WireMessage> message;

  /// Writes `known` and `gone`, the processes of which nothing is expected any more. Leaves out what doesn't fit.
  void write(const KnownFailure& known, const std::set<int>& gone);
  /// Reads what another process knows, and adds the processes that it calls gone to `gone`.
  KnownFailure read(std::set<int>& gone) const;
};

}  // namespace dptrain
