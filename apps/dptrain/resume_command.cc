#include "resume_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "comm/job.h"

namespace dptrain::app {
namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char end) {
  Words words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t next = std::min(text.find(end, begin), text.size());
    words.push_back(text.substr(begin, next - begin));
    begin = next + 1;
  }
  return words;
}

/// The words that a process was started with; empty if they can't be seen.
Words words_of(const std::string& pid) {
  try {
    return split(read_file("/proc/" + pid + "/cmdline"), '\0');
  } catch (const Error&) {
    return {};
  }
}

bool is_mpirun(const std::string& program) {
  constexpr std::array kNames = {"mpirun", "mpiexec", "orterun"};
  return std::ranges::find(kNames, std::filesystem::path(program).filename()) != kNames.end();
}

/// A text as one word for a shell.
std::string shell_word(const std::string& text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_@%+=:,./-").find(c) != std::string::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// The words of one program and its arguments, changed to resume the run.
Words resumed(const Words& program, bool has_own_checkpoint) {
  Words words, from = {"--resume"};
  for (size_t i = 0; i < program.size(); ++i) {
    if (program[i] == "--overwrite" || program[i].starts_with("--fault=")) continue;
    if (program[i] == "--fault") {
      ++i;
      continue;
    }
    Words named;
    if (program[i].starts_with("--resume="))
      named = {program[i]};
    else if (program[i] != "--resume")
      words.push_back(program[i]);
    else if (i + 1 < program.size() && !program[i + 1].starts_with("-"))
      named = {"--resume", program[++i]};
    if (has_own_checkpoint || named.empty()) continue;
    from = named;
    // The run's results so far would be refused otherwise.
    from.emplace_back("--overwrite");
  }
  words.insert(words.end(), from.begin(), from.end());
  return words;
}

}  // namespace

Words start_words(int processes) {
  // scripts/launch.sh stores its own words in this variable, separated by \x1f.
  if (const char* launch = std::getenv("DPTRAIN_LAUNCH")) return split(launch, '\x1f');
  Words own = words_of("self");
  if (processes == 1) return own;
  const Words launcher = words_of(std::to_string(launcher_pid()));
  if (!launcher.empty() && is_mpirun(launcher[0])) return launcher;
  const std::string plugin = std::getenv("PMIX_RANK") != nullptr ? "pmix" : "pmi2";
  Words srun = {"srun", "--mpi=" + plugin, "--kill-on-bad-exit", "-n", std::to_string(processes)};
  if (const char* nodes = std::getenv("SLURM_STEP_NUM_NODES")) srun.insert(srun.end(), {"-N", nodes});
  srun.insert(srun.end(), own.begin(), own.end());
  return srun;
}

std::string start_command(const Words& words) {
  Words command;
  for (const std::string& word : words) command.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(command, " "));
}

std::string resume_command(const Words& words, bool has_own_checkpoint) {
  Words command;
  // mpirun separates programs by ":".
  for (auto begin = words.begin();;) {
    const auto end = std::find(begin, words.end(), ":");
    for (const std::string& word : resumed(Words(begin, end), has_own_checkpoint)) command.push_back(shell_word(word));
    if (end == words.end()) break;
    command.emplace_back(":");
    begin = end + 1;
  }
  return fmt::format("{}", fmt::join(command, " "));
}

}  // namespace dptrain::app
