#include "comm/mpi_job.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/host_name.h"
#include "comm/exit_timer.h"
#include "comm/mpi_messages.h"
#include "comm/mpi_wire.h"
#include "comm/process_handle.h"

namespace dptrain {
namespace {

/// Throws an error with exit code `code` if MPI returned an error.
void check(int result, ExitCode code, const char* call) {
  if (result != MPI_SUCCESS) throw Error(code, fmt::format("MPI: {} failed: {}", call, mpi_error_text(result)));
}

/// Polls `is_so` until it is true or the deadline passes. Returns whether it became true. Sleeps longer the longer it
/// takes, a millisecond at most, so that the process waited for may have the core.
bool wait_until(const std::function<bool()>& is_so, Clock::time_point deadline) {
  auto pause = std::chrono::microseconds(10);
  while (!is_so()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

/// What processes tell each other when they join, as plain bytes.
struct ProcessRecord {
  std::array<char, 256> host = {};
  int64_t pid = 0;
  int64_t start = 0;
};

std::vector<JobProcess> exchange_processes() {
  ProcessRecord own;
  own.pid = ::getpid();
  own.start = process_start(own.pid);
  host_name().copy(own.host.data(), own.host.size() - 1);
  int count = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &count), ExitCode::job_not_formed, "MPI_Comm_size");
  std::vector<ProcessRecord> records(static_cast<size_t>(count));
  check(MPI_Allgather(&own, sizeof(own), MPI_BYTE, records.data(), sizeof(ProcessRecord), MPI_BYTE, MPI_COMM_WORLD),
        ExitCode::job_not_formed, "MPI_Allgather");
  std::vector<JobProcess> processes;
  for (const ProcessRecord& record : records)
    processes.push_back({.host = record.host.data(), .pid = record.pid, .start = record.start});
  return processes;
}

/// Makes Open MPI wait before it aborts. If mpirun dies, Open MPI ends its processes by itself with code -61, perhaps
/// before they have told each other why. With the delay, the watch over the launcher ends them first. Without PMIx,
/// Open MPI may find that it can't join the processes, and should report that at once.
void leave_lost_launchers_to_the_watch() {
  if (std::getenv("PMIX_RANK") != nullptr) ::setenv("OMPI_MCA_mpi_abort_delay", "20", /*overwrite=*/0);
}

/// Switches off Open MPI's signal handlers. In a process that crashes, they print a stack and then wait as long as
/// before any other abort, and the peers would wait for that. Without them the process is gone at once.
void leave_crashes_to_the_system() { ::setenv("OMPI_MCA_opal_signal", "", /*overwrite=*/0); }

/// Gives each stream a hardware queue. GPUs of several processes wait for each other in separate streams. By default a
/// GPU has 8 queues. Two of these streams may share one, and would then wait for each other as well.
void give_each_stream_a_queue() { ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0); }

class MpiJob final : public Job {
 public:
  /// MPI must be initialized.
  explicit MpiJob(const MpiJobOptions& options)
      : options_(options), all_(std::make_shared<const std::vector<JobProcess>>(exchange_processes())) {
    check(MPI_Comm_rank(MPI_COMM_WORLD, &process_), ExitCode::job_not_formed, "MPI_Comm_rank");
    int* tag = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&tag), &found), ExitCode::job_not_formed,
          "MPI_Comm_get_attr");
    largest_tag_ = found != 0 ? *tag : 32767;  // the least that MPI guarantees
    end_ = make_wire();
  }

  int process() const override { return process_; }
  const std::vector<JobProcess>& all() const override { return *all_; }

  std::shared_ptr<ProcessWire> make_wire() override {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request), ExitCode::peer_lost, "MPI_Comm_idup");
    const auto is_made = [&request] {
      int made = 0;
      check(MPI_Test(&request, &made, MPI_STATUS_IGNORE), ExitCode::peer_lost, "MPI_Comm_idup");
      return made != 0;
    };
    if (!wait_until(is_made, deadline_in(options_.join.timeout_s)))
      throw Error(ExitCode::peer_lost,
                  fmt::format("the {} processes of the job did not create a communicator of MPI within {} s",
                              processes(), options_.join.timeout_s));
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), ExitCode::peer_lost, "MPI_Comm_set_errhandler");
    return make_mpi_wire({.comm = comm,
                          .processes = all_,
                          .process = process_,
                          .largest_tag = largest_tag_,
                          .largest_part_bytes = options_.largest_part_bytes});
  }

  void finish(double timeout_s) override {
    const auto deadline = deadline_in(timeout_s);
    meet_at_end(timeout_s, deadline);
    end_.reset();
    // All processes have come, so this is short, but MPI_Finalize can't be given a deadline. A timeout here is no
    // failure any more.
    const ExitTimer timer(
        std::max(1.0, seconds_between(Clock::now(), deadline)), ExitCode::ok,
        fmt::format("MPI_Finalize did not return within {} s; all work of the job was done by then", timeout_s));
    check(MPI_Finalize(), ExitCode::peer_lost, "MPI_Finalize");
  }

  int connections_lost() const override { return mpi_connections_lost(); }

  [[noreturn]] void leave(ExitCode code) override { ::_exit(static_cast<int>(code)); }

 private:
  /// Waits for all processes at the end. Every process tells process 0, which answers all of them once it has heard of
  /// all.
  void meet_at_end(double timeout_s, Clock::time_point deadline) {
    std::vector<std::unique_ptr<WireMessage>> messages;
    const auto wait_for_all = [&](const char* lacks) {
      for (size_t i = 0; i < messages.size(); ++i) {
        if (wait_until([&] { return messages[i]->is_done(); }, deadline)) continue;
        throw Error(ExitCode::peer_lost,
                    fmt::format("{} {} within {} s",
                                name_of_process(*all_, process_ == 0 ? static_cast<int>(i) + 1 : 0), lacks, timeout_s));
      }
      messages.clear();
    };
    constexpr int kTag = 0;
    if (process_ == 0) {
      for (int other = 1; other < processes(); ++other) messages.push_back(end_->start_receive({}, other, kTag));
      wait_for_all("did not reach the end of the job");
      for (int other = 1; other < processes(); ++other) messages.push_back(end_->start_send({}, other, kTag));
      wait_for_all("did not hear of the end of the job");
    } else {
      messages.push_back(end_->start_send({}, 0, kTag));
      messages.push_back(end_->start_receive({}, 0, kTag));
      wait_for_all("did not report that all processes had reached the end of the job");
    }
  }

  MpiJobOptions options_;
  std::shared_ptr<const std::vector<JobProcess>> all_;
  int process_ = 0;
  int largest_tag_ = 0;
  std::shared_ptr<ProcessWire> end_;
};

LibraryVersion mpi_library() {
#ifdef OPEN_MPI
  // The text is "Open MPI v4.1.4, package: ...". Its major version is that of its interface.
  LibraryVersion version = {.name = "Open MPI", .built_major = OMPI_MAJOR_VERSION, .built_minor = OMPI_MINOR_VERSION};
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), ExitCode::job_not_formed, "MPI_Get_library_version");
  std::sscanf(text.data(), "Open MPI v%d.%d", &version.loaded_major, &version.loaded_minor);
#else
  // For another MPI only the version of the standard is known.
  LibraryVersion version = {.name = "MPI", .built_major = MPI_VERSION, .built_minor = MPI_SUBVERSION};
  check(MPI_Get_version(&version.loaded_major, &version.loaded_minor), ExitCode::job_not_formed, "MPI_Get_version");
#endif
  return version;
}

}  // namespace

std::unique_ptr<Job> join_mpi_job(const MpiJobOptions& options) {
  mpi_library().require_fit();
  int initialized = 0;
  check(MPI_Initialized(&initialized), ExitCode::job_not_formed, "MPI_Initialized");
  DPTRAIN_CHECK(initialized == 0, "a process joins its job once");
  leave_lost_launchers_to_the_watch();
  leave_crashes_to_the_system();
  give_each_stream_a_queue();
  const MpiMessages messages;
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), ExitCode::job_not_formed, "MPI_Init_thread");
  messages.take();
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF})
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), ExitCode::job_not_formed, "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_MULTIPLE)
    throw Error(ExitCode::job_not_formed,
                "this MPI lets only one thread call it; dptrain needs an MPI that offers MPI_THREAD_MULTIPLE, as Open "
                "MPI does by default");
  return std::make_unique<MpiJob>(options);
}

std::unique_ptr<Job> join_job(const JoinOptions& options) { return join_mpi_job({.join = options}); }

std::vector<LibraryVersion> job_libraries() { return {mpi_library()}; }

}  // namespace dptrain
