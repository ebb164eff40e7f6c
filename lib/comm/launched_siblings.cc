#include "comm/launched_siblings.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "comm/job.h"

namespace dptrain {
namespace {

namespace fs = std::filesystem;

/// A launcher that has started one process starts the next one within this time.
constexpr double kNext_s = 3;

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::vector<int64_t> children_of(int64_t parent) {
  std::vector<int64_t> children;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename().string();
    if (is_number(name) && parent_of_process(std::stoll(name)) == parent) children.push_back(std::stoll(name));
  }
  return children;
}

/// The file of a process's program; "" if this user may not see it.
std::string program_of(int64_t pid) {
  std::error_code unknown;
  return fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", unknown).string();
}

}  // namespace

LaunchedSiblings::LaunchedSiblings(int64_t launcher, int here) : launcher_(launcher), here_(here) { look(); }

void LaunchedSiblings::look() {
  if (here_ > 0 && static_cast<int>(seen_.size()) == here_) return;
  for (const int64_t pid : children_of(launcher_)) {
    const auto number = launched_process_of(pid);
    ProcessHandle process(pid);
    if (number && process && !seen_.contains(*number)) {
      seen_[*number] = {.pid = pid, .process = std::move(process)};
      latest_ = Clock::now();
    } else if (!number && program_of(pid) == program_of(launcher_)) {
      latest_ = Clock::now();  // a copy of the launcher that is about to become a process of the job
    }
  }
}

std::vector<LaunchedSiblings::Process> LaunchedSiblings::ended() const {
  std::vector<Process> ended;
  for (const auto& [number, sibling] : seen_)
    if (sibling.process.has_ended()) ended.push_back({.number = number, .pid = sibling.pid});
  return ended;
}

bool LaunchedSiblings::lacks_some(const std::set<int>& others) const {
  if (here_ == 0 || seconds_since(latest_) < kNext_s) return false;
  std::set<int> known = others;
  for (const auto& [number, sibling] : seen_) known.insert(number);
  return static_cast<int>(known.size()) < here_;
}

}  // namespace dptrain
