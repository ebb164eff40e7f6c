#pragma once

namespace dptrain {

/// What Open MPI has to say beside what its calls return. Of a connection that has ended Open MPI 4.1 tells by asking
/// mpirun to print it, and holds the thread in MPI_Test until mpirun answers, which it doesn't while it ends other
/// processes. So this process takes these messages itself: those of connections are counted, others printed, as Open
/// MPI does without mpirun. With another MPI nothing happens.
///
/// Made before MPI begins.
class MpiMessages {
 public:
  MpiMessages();
  /// Once MPI has begun.
  void take() const;
};

/// How often a connection to another process has ended or could not be made so far.
int mpi_connections_lost();

}  // namespace dptrain
