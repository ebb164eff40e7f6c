#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "base/library_version.h"
#include "comm/join_options.h"
#include "comm/process_wire.h"

namespace dptrain {

/// One process of a job.
struct JobProcess {
  std::string host;
  int64_t pid = 0;
  int64_t start = 0;  ///< as process_start has it on its host
};

/// The processes that a launcher (mpirun, srun) started together, as MPI has joined them. One object a process.
class Job {
 public:
  virtual ~Job() = default;

  virtual int process() const = 0;  ///< this one's number, from 0
  int processes() const { return static_cast<int>(all().size()); }
  /// All processes, by number.
  virtual const std::vector<JobProcess>& all() const = 0;
  /// A wire between all of them, apart from all others. Every process asks for the same ones in the same order. Wires
  /// must end before the job does.
  virtual std::shared_ptr<ProcessWire> make_wire() = 0;

  /// How often a connection to another process has ended or could not be made so far, as far as that is told.
  virtual int connections_lost() const = 0;

  /// The regular end, which every process calls: waits for the others, `timeout_s` at most. Throws 75 where they don't
  /// come; where they do and MPI itself doesn't end by then the process ends with 0. Nothing of the job may be used
  /// after.
  virtual void finish(double timeout_s) = 0;
  /// The end after a failure: leaves the process at once with this code, waiting for nobody, whatever its other threads
  /// do. What was to be told has been. Also how a process must end that gave up a message.
  [[noreturn]] virtual void leave(ExitCode code) = 0;
};

/// Whether a launcher started this process as one of a job, by its environment: that of Open MPI, of PMIx or of PMI.
bool was_launched_in_job();

/// Seconds that the processes of a job wait for each other to join: those of the variable DPTRAIN_JOIN_TIMEOUT, 60
/// where there is none. Throws 64 where it isn't a number from 1 to 86400.
double join_timeout_s();

/// How many processes the launcher says that it has started together; 1 where it doesn't say.
int launched_processes();

/// How many of them are on this host; 0 where it doesn't say.
int launched_processes_here();

/// The number among them that the launcher has given to this one; 0 where it doesn't say.
int launched_process();

/// The same of another process of this host, which is of the same job; nothing where it can't be seen.
std::optional<int> launched_process_of(int64_t pid);

/// The process that launched this one on this host: mpirun, or what mpirun started there. That is the nearest ancestor
/// that isn't itself one of the job's, as a script that starts dptrain would be. Its pid.
int64_t launcher_pid();

/// Whether that died before this process could look, so that the host's first process has its place. Known where Open
/// MPI's mpirun has started the job.
bool launcher_is_gone();

/// Leaves what this process ends with, a line of the code and one of the sentence, in the file that the variable
/// DPTRAIN_EXIT_FILE names: for a launcher on this host, which learns of a process's end later than by itself. Not
/// where there is no such variable, where the code is 0, or where another process was first; a file that can't be
/// written is left out. From any thread.
void tell_launcher_of_exit(int code, std::string_view sentence);

/// Leaves the absolute path of a training's directory in the file that the variable DPTRAIN_RUN_FILE names, as
/// tell_launcher_of_exit does: the training has begun, and what an earlier one has left there is gone.
void tell_launcher_of_run(const std::filesystem::path& directory);

/// Joins the job, under a JoinWatch (join_watch.h) of the caller's: blocks until all processes have, and knows no
/// deadline. What is made of it before the job's watchdog is, as its wire, may wait as well. Throws 69 where MPI isn't
/// built in, naming the CMake option.
std::unique_ptr<Job> join_job(const JoinOptions& options);

/// MPI, where it is built in.
std::vector<LibraryVersion> job_libraries();

}  // namespace dptrain
