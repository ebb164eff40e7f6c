// Measures MPI's all-reduce of floats between processes, for scripts/bench_comm.py.
// Usage: mpirun -n RANKS all_reduce_mpi BYTES SETS REPEATS      rank 0 prints the seconds of each call, one per line
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char** values) {
  MPI_Init(&count, &values);
  if (count != 4) {
    fprintf(stderr, "all_reduce_mpi: expected BYTES SETS REPEATS\n");
    MPI_Abort(MPI_COMM_WORLD, 64);
  }
  const long bytes = atol(values[1]), sets = atol(values[2]), repeats = atol(values[3]);
  const int elements = (int)(bytes / 4);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float** buffers = malloc((size_t)sets * sizeof *buffers);
  for (long s = 0; s < sets; ++s) {
    buffers[s] = malloc((size_t)bytes);
    memset(buffers[s], 0, (size_t)bytes);
  }
  for (long i = 0; i < repeats; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begun = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, buffers[i % sets], elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("%.9f\n", MPI_Wtime() - begun);
  }
  for (long s = 0; s < sets; ++s) free(buffers[s]);
  free(buffers);
  MPI_Finalize();
  return 0;
}
