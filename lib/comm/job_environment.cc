#include <array>
#include <cstdlib>

#include "comm/job.h"

namespace dptrain {

bool was_launched_in_job() {
  // Open MPI's mpirun; srun --mpi=pmix and other launchers of PMIx; srun --mpi=pmi2 and MPICH's mpirun.
  constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return true;
  return false;
}

int launched_processes() {
  constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr && std::atoi(value) > 1) return std::atoi(value);
  return 1;
}

}  // namespace dptrain
