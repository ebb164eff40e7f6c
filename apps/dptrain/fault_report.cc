#include "fault_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "train/checkpoint_files.h"

namespace dptrain::app {
namespace {

/// How this process was started.
std::vector<std::string> own_arguments() {
  std::vector<std::string> arguments;
  try {
    const std::string line = read_file("/proc/self/cmdline");
    for (size_t begin = 0; begin < line.size();) {
      const size_t end = line.find('\0', begin);
      arguments.push_back(line.substr(begin, end - begin));
      if (end == std::string::npos) break;
      begin = end + 1;
    }
  } catch (const Error&) {
    // Without /proc the command can't be told.
  }
  return arguments;
}

/// As one word of a shell.
std::string shell_word(const std::string& text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// "mpirun -n 4 -H a:2,b:2", for a job; nothing for a process alone.
std::vector<std::string> launcher_arguments(const std::vector<JobProcess>& processes) {
  if (processes.size() < 2) return {};
  const std::string count = std::to_string(processes.size());
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return {"srun", "-n", count};
  std::vector<std::pair<std::string, int>> hosts;
  for (const JobProcess& process : processes) {
    if (hosts.empty() || hosts.back().first != process.host) hosts.emplace_back(process.host, 0);
    ++hosts.back().second;
  }
  std::vector<std::string> arguments = {"mpirun", "-n", count};
  if (hosts.size() == 1) return arguments;
  std::string list;
  for (const auto& [host, number] : hosts) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host, number);
  arguments.insert(arguments.end(), {"-H", list});
  return arguments;
}

}  // namespace

std::string resume_command(const std::vector<std::string>& arguments, const std::vector<JobProcess>& processes) {
  std::vector<std::string> command = launcher_arguments(processes);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--overwrite" || arguments[i].starts_with("--resume=")) continue;
    if (arguments[i] == "--resume") {
      // The checkpoint that it may name is older than the run's own.
      if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("-")) ++i;
      continue;
    }
    command.push_back(arguments[i]);
  }
  command.emplace_back("--resume");
  for (std::string& word : command) word = shell_word(word);
  return fmt::format("{}", fmt::join(command, " "));
}

FaultReport::FaultReport(int process, std::vector<JobProcess> processes)
    : process_(process), processes_(std::move(processes)), resume_(resume_command(own_arguments(), processes_)) {}

void FaultReport::begin(const std::string& run, const std::filesystem::path& directory,
                        const std::optional<train::FaultRecord::Saved>& resumed) {
  run_ = run;
  directory_ = directory;
  resumed_ = resumed;
  if (resumed) progress_.checkpoint = progress_.step = resumed->step;
  begun_ = true;
  std::error_code absent;
  if (process_ != 0) std::filesystem::remove(directory_ / train::fault_name(process_), absent);
}

JobFailure FaultReport::completed(JobFailure failure) const {
  if (!begun_) return failure;
  if (failure.process == process_ || failure.process < 0) failure.step = progress_.step;
  failure.steps_lost = std::max<int64_t>(0, progress_.step - std::max<int64_t>(0, progress_.checkpoint));
  return failure;
}

std::string FaultReport::line(const JobFailure& failure) const {
  if (failure.code != ExitCode::peer_lost || failure.steps_lost < 0) return failure.sentence;
  return fmt::format("{}; {} {} lost, resume with: {}", failure.sentence, failure.steps_lost,
                     failure.steps_lost == 1 ? "step" : "steps", resume_);
}

void FaultReport::write(const JobFailure& failure) const noexcept {
  std::error_code absent;
  if (!begun_ || is_stop(failure) || !std::filesystem::is_directory(directory_, absent)) return;
  try {
    const int root = failure.process < 0 ? process_ : failure.process;
    const JobProcess& where = processes_[static_cast<size_t>(root)];
    const int64_t saved = progress_.checkpoint;
    std::optional<train::FaultRecord::Saved> last;
    if (resumed_ && resumed_->step == saved)
      last = resumed_;
    else if (saved >= 0)
      last = {.path = directory_ / "checkpoints" / train::checkpoint_name(saved), .step = saved};
    write_file_atomically(
        directory_ / train::fault_name(process_),
        train::fault_json({.run = run_,
                           .process = process_,
                           .exit = static_cast<int>(failure.code),
                           .root = {.process = root,
                                    .host = where.host,
                                    .pid = where.pid,
                                    .step = failure.step >= 0 ? std::optional(failure.step) : std::nullopt,
                                    .cause = failure.sentence},
                           .last_checkpoint = last,
                           .steps_lost = std::max<int64_t>(0, failure.steps_lost),
                           .resume = resume_}));
  } catch (const std::exception&) {
    // The failure itself is told of in any case.
  }
}

}  // namespace dptrain::app
