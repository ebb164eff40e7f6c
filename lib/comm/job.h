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
  int64_t start = 0;  ///< as process_start returns it on its host
};

/// The processes that a launcher (mpirun, srun) started together and that MPI has joined. Each process has one object.
class Job {
 public:
  virtual ~Job() = default;

  virtual int process() const = 0;  ///< this process's number, from 0
  int processes() const { return static_cast<int>(all().size()); }
  /// All processes, by number.
  virtual const std::vector<JobProcess>& all() const = 0;
  /// Makes a wire between all processes, separate from all other wires. Every process makes the same wires in the same
  /// order. Wires must end before the job does.
  virtual std::shared_ptr<ProcessWire> make_wire() = 0;

  /// How often a connection to another process has ended or could not be made so far, as far as MPI reports it.
  virtual int connections_lost() const = 0;

  /// Ends the job regularly. Every process calls it and waits for the others, `timeout_s` at most. Throws an error with
  /// exit code 75 if they don't come. If they come but MPI itself doesn't end in time, the process exits with code 0.
  /// Nothing of the job may be used afterwards.
  virtual void finish(double timeout_s) = 0;
  /// Ends the process after a failure, at once and with this code. It waits for nobody, whatever the other threads do.
  /// All messages to the user must have been written before. A process that gave up a message must end this way too.
  [[noreturn]] virtual void leave(ExitCode code) = 0;
};

/// Whether a launcher started this process as one of a job, judged by the environment variables of Open MPI, PMIx or
/// PMI.
bool was_launched_in_job();

/// Seconds that the processes of a job wait for each other to join: the value of DPTRAIN_JOIN_TIMEOUT, by default 60.
/// Throws an error with exit code 64 if it isn't a number from 1 to 86400.
double join_timeout_s();

/// How many processes the launcher says it has started together; 1 if it doesn't say.
int launched_processes();

/// How many of these processes are on this host; 0 if the launcher doesn't say.
int launched_processes_here();

/// This process's number among these processes; 0 if the launcher doesn't say.
int launched_process();

/// The number of another process of the same job on this host; nothing if it can't be read.
std::optional<int> launched_process_of(int64_t pid);

/// The pid of the process that launched this one on this host: mpirun, or a process that mpirun started there. This is
/// the nearest ancestor that isn't itself a process of the job. A script that starts dptrain counts as a process of the
/// job.
int64_t launcher_pid();

/// Whether the launcher died before this process could look, so that pid 1 has taken its place. Only known if Open
/// MPI's mpirun started the job.
bool launcher_is_gone();

/// Tells a launcher on this host how this process ends. A launcher learns of that later without it. Writes a line with
/// the code and a line with the sentence to the file that DPTRAIN_EXIT_FILE names. Writes nothing if the variable isn't
/// set, if the code is 0, if another process wrote first, or if the file can't be written. May be called on any thread.
void tell_launcher_of_exit(int code, std::string_view sentence);

/// Tells a launcher that a run has begun: writes the absolute path of the run's directory to the file that
/// DPTRAIN_RUN_FILE names, unless another process has written that file first. Called once an earlier run's results in
/// that directory have been removed.
void tell_launcher_of_run(const std::filesystem::path& directory);

/// Joins the job. The caller must hold a JoinWatch (join_watch.h), since this blocks, without a deadline, until all
/// processes have joined. Until the job's watchdog exists, other calls on the job, such as make_wire, may block as
/// well. Throws an error with exit code 69 that names the CMake option if MPI isn't built in.
std::unique_ptr<Job> join_job(const JoinOptions& options);

/// MPI, if it is built in.
std::vector<LibraryVersion> job_libraries();

}  // namespace dptrain
