#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/job.h"

namespace dptrain {

struct MpiWireOptions {
  MPI_Comm comm = MPI_COMM_NULL;  ///< the wire frees it
  std::shared_ptr<const std::vector<JobProcess>> processes;
  int process = 0;
  int largest_tag = 0;
  /// Longer messages are passed to MPI in parts of this many bytes, since MPI counts in `int`. Each stays one message.
  int largest_part_bytes = 0;
};

std::shared_ptr<ProcessWire> make_mpi_wire(const MpiWireOptions& options);

/// The name of a process: "process 1 (host b, pid 4711)".
std::string name_of_process(const std::vector<JobProcess>& processes, int process);

/// MPI's text for an error code that it returned.
std::string mpi_error_text(int error);

}  // namespace dptrain
