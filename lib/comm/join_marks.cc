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

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
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
  std::ofstream mark(folder_ / fmt::format("{}{}", kMark, launched_process()));
  if (!mark) folder_.clear();
}

std::set<int> JoinMarks::present() const {
  std::set<int> processes;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder_, gone)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kMark)) processes.insert(std::atoi(name.c_str() + kMark.size()));
  }
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
  if (own == 0 || folder_.empty() || here_ < processes_) return own == 0;
  const std::set<int> there = present();
  return !there.empty() && *there.begin() == own;
}

}  // namespace dptrain
