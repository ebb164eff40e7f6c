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
#include "comm/process_handle.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "dptrain-joins-";
/// Naming more of them would make the sentence longer, but not more useful.
constexpr size_t kMostNamed = 8;

/// The value of the first of these variables that is set; "" if none is.
template <size_t n>
std::string variable(const std::array<const char*, n>& names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  return {};
}

/// Names processes, with their verb: "process 2 is", "processes 2, 3 and 7 more are".
std::string named(const std::vector<int>& processes) {
  if (processes.size() == 1) return fmt::format("process {} is", processes[0]);
  const size_t first = std::min(processes.size(), kMostNamed);
  std::string text = fmt::format("processes {}", fmt::join(processes.begin(), processes.begin() + first, ", "));
  if (first < processes.size()) text += fmt::format(" and {} more", processes.size() - first);
  return text + " are";
}

}  // namespace

void note_end_before_joining(int exit_code) {
  if (was_launched_in_job()) JoinMarks().note_end(exit_code);
}

JoinMarks::JoinMarks(int64_t launcher)
    : launcher_(launcher),
      launcher_start_(process_start(launcher)),
      folder_(variable(std::array{"OMPI_MCA_orte_jobfam_session_dir", "PMIX_SERVER_TMPDIR"})),
      processes_(launched_processes()),
      here_(launched_processes_here()) {
  if (!folder_.empty() && !write({.pid = ::getpid(), .start = process_start(::getpid())})) folder_.clear();
}

void JoinMarks::release() const {
  if (!folder_.empty()) write({});
}

void JoinMarks::note_end(int exit_code) const {
  if (!folder_.empty()) write({.exit_code = exit_code});
}

fs::path JoinMarks::file(int process) const { return folder_ / fmt::format("{}{}", kMark, process); }

bool JoinMarks::write(const Mark& mark) const {
  const fs::path half = folder_ / fmt::format("half-of-{}{}", kMark, launched_process());
  {
    std::ofstream text(half);
    text << fmt::format("{} {} {} {} {}\n", launcher_, launcher_start_, mark.pid, mark.start, mark.exit_code);
    if (!text.flush()) return false;
  }
  std::error_code error;
  fs::rename(half, file(launched_process()), error);
  return !error;
}

bool JoinMarks::Mark::has_died() const {
  if (pid == 0) return false;
  const ProcessHandle process(pid, start);
  return !process || process.has_ended();
}

std::map<int, JoinMarks::Mark> JoinMarks::marks() const {
  std::map<int, Mark> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder_, gone)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kMark)) continue;
    std::ifstream text(entry.path());
    int64_t launcher = 0, launcher_start = 0;
    Mark mark;
    text >> launcher >> launcher_start >> mark.pid >> mark.start >> mark.exit_code;
    if (text && launcher == launcher_ && launcher_start == launcher_start_)
      found.emplace(std::atoi(name.c_str() + kMark.size()), mark);
  }
  return found;
}

std::optional<JoinMarks::Process> JoinMarks::find_dead() const {
  if (folder_.empty()) return std::nullopt;
  for (const auto& [number, mark] : marks()) {
    // Read again: the process may have been released meanwhile.
    if (mark.has_died() && marks()[number].has_died()) return Process{.number = number, .pid = mark.pid};
  }
  return std::nullopt;
}

std::optional<JoinMarks::Ended> JoinMarks::find_ended() const {
  if (folder_.empty()) return std::nullopt;
  for (const auto& [number, mark] : marks())
    if (mark.exit_code != 0) return Ended{.number = number, .exit_code = mark.exit_code};
  return std::nullopt;
}

std::optional<std::set<int>> JoinMarks::come() const {
  if (folder_.empty()) return std::nullopt;
  std::set<int> processes;
  for (const auto& [number, mark] : marks()) processes.insert(number);
  return processes;
}

std::set<int> JoinMarks::present() const {
  std::set<int> processes;
  for (const auto& [number, mark] : marks())
    if (!mark.has_died()) processes.insert(number);
  return processes;
}

std::string JoinMarks::missing() const {
  if (folder_.empty() || here_ == 0) return {};
  const std::set<int> there = present();
  // A launcher that has ended may have removed the folder.
  if (there.empty()) return {};
  if (here_ < processes_) {
    const std::string hosts = variable(std::array{"DPTRAIN_HOSTS", "SLURM_STEP_NODELIST"});
    return fmt::format(": on host {}, {} of {} {} present{}", host_name(), there.size(), here_,
                       here_ == 1 ? "is" : "are", hosts.empty() ? "" : "; the hosts of the job are " + hosts);
  }
  std::vector<int> missing;
  for (int process = 0; process < processes_; ++process)
    if (!there.contains(process)) missing.push_back(process);
  if (missing.empty()) return fmt::format(": all {} are present, but MPI has not connected them", processes_);
  return fmt::format(": {} missing", named(missing));
}

bool JoinMarks::speaks_for_job() const {
  const int own = launched_process();
  if (own == 0 || folder_.empty()) return own == 0;
  const std::set<int> there = present();
  return !there.empty() && *there.begin() == own;
}

}  // namespace dptrain
