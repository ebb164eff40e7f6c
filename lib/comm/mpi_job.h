#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/job.h"

namespace dptrain {

struct MpiJobOptions {
  double timeout_s = 0;                                           ///< for joining, and for each wire that is made
  std::function<void(const std::string& sentence)> on_missing{};  ///< as JoinOptions has it
  /// Longer messages are told to MPI in parts of so many bytes (see mpi_wire.h).
  int largest_part_bytes = 1 << 30;
};

/// What join_job does where MPI is built in. Once a process.
std::unique_ptr<Job> join_mpi_job(const MpiJobOptions& options);

}  // namespace dptrain
