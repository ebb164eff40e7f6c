#include "base/error.h"
#include "comm/job.h"

namespace dptrain {

std::unique_ptr<Job> join_job(const JoinOptions&) {
  throw Error(
      ExitCode::job_not_formed,
      "a launcher (mpirun, srun) started this process as part of a job, but this dptrain was built without MPI; "
      "build it with -DDPTRAIN_MPI=ON, or start it without the launcher");
}

std::vector<LibraryVersion> job_libraries() { return {}; }

}  // namespace dptrain
