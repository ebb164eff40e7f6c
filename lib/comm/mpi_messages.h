#pragma once

namespace dptrain {

/// Takes the messages that Open MPI writes besides what its calls return. When a connection ends, Open MPI 4.1 asks
/// mpirun to print a message and holds the thread in MPI_Test until mpirun answers. mpirun doesn't answer while it ends
/// other processes. So this process takes the messages itself. It counts those about connections and prints the rest,
/// as Open MPI does without mpirun. With another MPI nothing happens.
///
/// Must be made before MPI begins.
class MpiMessages {
 public:
  MpiMessages();
  /// Takes the messages from now on. Call it once MPI has begun.
  void take() const;
};

/// How often a connection to another process has ended or could not be made so far.
int mpi_connections_lost();

}  // namespace dptrain
