#include "comm/join_marks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/host_name.h"
#include "comm/job.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "dptrain-joins-";
/// More of them make a sentence longer, and nobody wiser.
constexpr size_t kMostNamed = 8;

/// Of the first of these variables that is set; "" where none is.
template <size_t n>
std::string variable(const std::array<const char*, n>& names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return {};
}

/// "process 2 is", "processes 2, 3 and 7 more are"
std::string named(const std::vector<int>& processes) {
  if (processes.size() == 1) return fmt::format("process {} is", processes[0]);
  const size_t first = std::min(processes.size(), kMostNamed);
  std::string text = fmt::format("processes {}", fmt::join(processes.begin(), processes.begin() + first, ", "));
  if (first < processes.size()) text += fmt::format(" and {} more", processes.size() - first);
  return text + " are";
}

}  // namespace

JoinMarks::JoinMarks()
    : folder_(variable(std::array{"OMPI_MCA_orte_jobfam_session_dir", "PMIX_SERVER_TMPDIR"})),
      processes_(launched_processes()),
      here_(std::atoi(variable(std::array{"OMPI_COMM_WORLD_LOCAL_SIZE"}).c_str())) {
  if (folder_.empty()) return;
  std::ofstream mark(file(launched_process()));
  mark << ::getpid() << ' ' << process_start(::getpid()) << '\n';
  if (!mark.flush()) folder_.clear();
}

void JoinMarks::release() const {
  if (!folder_.empty()) std::ofstream(file(launched_process()), std::ios::trunc);
}

fs::path JoinMarks::file(int process) const { return folder_ / fmt::format("{}{}", kMark, process); }

std::optional<JoinMarks::Mark> JoinMarks::mark_of(int process) const {
  std::ifstream text(file(process));
  Mark mark;
  // What is half written yet has no end.
  if (!(text >> mark.pid >> mark.start) || text.get() != '\n') return std::nullopt;
  return mark;
}

bool JoinMarks::has_died(int process) const {
  const auto mark = mark_of(process);
  return mark && process_start(mark->pid) != mark->start;
}

std::optional<JoinMarks::Process> JoinMarks::find_dead() {
  if (folder_.empty()) return std::nullopt;
  for (const int process : present_marks()) {
    if (process == launched_process()) continue;
    const auto mark = mark_of(process);
    if (!mark) continue;
    ProcessHandle& handle = watched_[process];
    if (!handle) handle = ProcessHandle(mark->pid, mark->start);
    // It may have been released before it ended.
    if ((!handle || handle.has_ended()) && mark_of(process)) return Process{.number = process, .pid = mark->pid};
  }
  return std::nullopt;
}

std::set<int> JoinMarks::present_marks() const {
  std::set<int> processes;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder_, gone)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kMark)) processes.insert(std::atoi(name.c_str() + kMark.size()));
  }
  return processes;
}

std::set<int> JoinMarks::present() const {
  std::set<int> processes = present_marks();
  std::erase_if(processes, [this](int process) { return has_died(process); });
  return processes;
}

std::string JoinMarks::missing() const {
  if (folder_.empty() || here_ == 0) return {};
  const std::set<int> there = present();
  // A launcher that has ended may have taken the folder with it.
  if (there.empty()) return {};
  if (here_ < processes_) {
    const std::string hosts = variable(std::array{"DPTRAIN_HOSTS", "SLURM_STEP_NODELIST"});
    return fmt::format(": on host {} {} of {} {} there{}", host_name(), there.size(), here_, here_ == 1 ? "is" : "are",
                       hosts.empty() ? "" : "; the hosts of the job are " + hosts);
  }
  std::vector<int> missing;
  for (int process = 0; process < processes_; ++process)
    if (!there.contains(process)) missing.push_back(process);
  if (missing.empty()) return fmt::format(": all {} are there, and MPI has not connected them", processes_);
  return fmt::format(": {} missing", named(missing));
}

bool JoinMarks::speaks_for_job() const {
  const int own = launched_process();
  if (own == 0 || folder_.empty()) return own == 0;
  const std::set<int> there = present();
  return !there.empty() && *there.begin() == own;
}

}  // namespace dptrain
