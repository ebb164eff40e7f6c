#pragma once

#include <memory>

#include "comm/job.h"

namespace dptrain {

struct MpiJobOptions {
  JoinOptions join = {};  ///< its time is also the deadline for making each wire
  /// Longer messages are passed to MPI in parts of this many bytes (see mpi_wire.h).
  int largest_part_bytes = 1 << 30;
};

/// Implements join_job if MPI is built in. Call it once per process.
std::unique_ptr<Job> join_mpi_job(const MpiJobOptions& options);

}  // namespace dptrain
