#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "comm/job.h"
#include "comm/process_handle.h"

namespace dptrain {
namespace {

/// The variable by which a launcher says that this process belongs to a job; nullptr if there is none.
const char* job_variable() {
  // Open MPI's mpirun; srun --mpi=pmix and other launchers with PMIx; srun --mpi=pmi2 and MPICH's mpirun.
  constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return name;
  return nullptr;
}

/// The value of this variable that a process was started with. Nothing if it had none, or if it is another user's.
std::optional<std::string> started_with(int64_t pid, const std::string& variable) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');)
    if (entry.starts_with(variable + "=")) return entry.substr(variable.size() + 1);
  return std::nullopt;
}

bool was_started_with(int64_t pid, const std::string& variable) { return started_with(pid, variable).has_value(); }

constexpr std::array kNumberVariables = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

/// The program's name as ps shows it; "" if there is no such process.
std::string name_of_program(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

/// Writes `lines` to the file that the variable names, unless a process has written it before.
void leave_for_launcher(const char* variable, const std::string& lines) {
  const char* path = std::getenv(variable);
  if (path == nullptr || *path == '\0') return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return;
  // If nothing is written, the launcher goes on as with any other program.
  [[maybe_unused]] const ssize_t written = ::write(file, lines.data(), lines.size());
  ::close(file);
}

}  // namespace

bool was_launched_in_job() { return job_variable() != nullptr; }

int64_t launcher_pid() {
  const char* variable = job_variable();
  int64_t pid = ::getppid();
  while (variable != nullptr && pid > 1 && was_started_with(pid, variable)) pid = parent_of_process(pid);
  return pid;
}

bool launcher_is_gone() {
  constexpr const char* kOfOpenMpi = "OMPI_COMM_WORLD_SIZE";
  constexpr std::array<std::string_view, 6> kLaunchers = {"mpirun", "mpiexec", "orterun",
                                                          "orted",  "prte",    "slurmstepd"};
  constexpr int64_t kFirst = 1;
  if (std::getenv(kOfOpenMpi) == nullptr || launcher_pid() != kFirst) return false;
  // In a container, the launcher may itself be process 1, or process 1 may be a process of the job.
  const std::string name = name_of_program(kFirst);
  return !was_started_with(kFirst, kOfOpenMpi) &&
         std::ranges::none_of(kLaunchers, [&name](std::string_view one) { return name.starts_with(one); });
}

double join_timeout_s() {
  constexpr double kUsual = 60, kMost = 86400;
  const char* text = std::getenv("DPTRAIN_JOIN_TIMEOUT");
  if (text == nullptr || *text == '\0') return kUsual;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == '\0' && seconds >= 1 && seconds <= kMost) return seconds;
  throw Error(ExitCode::usage, Mistake{.where = "DPTRAIN_JOIN_TIMEOUT",
                                       .expected = fmt::format("expected a number of seconds from 1 to {}", kMost),
                                       .got = fmt::format("'{}'", text),
                                       .advice = "set it to a number such as 600, or unset it"});
}

void tell_launcher_of_exit(int code, std::string_view sentence) {
  if (code != 0) leave_for_launcher("DPTRAIN_EXIT_FILE", fmt::format("{}\n{}\n", code, sentence));
}

void tell_launcher_of_run(const std::filesystem::path& directory) {
  std::error_code unknown;
  const std::filesystem::path path = std::filesystem::absolute(directory, unknown);
  if (!unknown) leave_for_launcher("DPTRAIN_RUN_FILE", path.string() + "\n");
}

int launched_processes() {
  constexpr std::array kVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr && std::atoi(value) > 1) return std::atoi(value);
  return 1;
}

int launched_processes_here() {
  const char* value = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return value != nullptr ? std::atoi(value) : 0;
}

int launched_process() {
  for (const char* name : kNumberVariables)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return std::max(0, std::atoi(value));
  return 0;
}

std::optional<int> launched_process_of(int64_t pid) {
  for (const char* name : kNumberVariables)
    if (const auto value = started_with(pid, name); value && !value->empty())
      return std::max(0, std::atoi(value->c_str()));
  return std::nullopt;
}

}  // namespace dptrain
