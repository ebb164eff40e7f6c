#pragma once

#include <memory>

#include "comm/job.h"

namespace dptrain {

struct MpiJobOptions {
  JoinOptions join = {};  ///< whose time is also that for each wire that is made
  /// Longer messages are told to MPI in parts of so many bytes (see mpi_wire.h).
  int largest_part_bytes = 1 << 30;
};

/// What join_job does where MPI is built in. Once a process.
std::unique_ptr<Job> join_mpi_job(const MpiJobOptions& options);

}  // namespace dptrain
