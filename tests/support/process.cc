#include "support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

namespace dptrain::testing {
namespace {

void redirect(int stream, const char* path, int flags) {
  ::close(stream);
  if (std::string_view(path) == "closed") return;
  const int opened = ::open(path, flags, 0644);
  if (opened == stream) return;
  ::dup2(opened, stream);
  ::close(opened);
}

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Finished::last_error() const {
  const auto lines = lines_of(err);
  return lines.empty() ? std::string() : lines.back();
}

Process::Process(const ProcessOptions& options) : timeout_s_(options.timeout_s) {
  std::vector<char*> arguments;
  for (const auto& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  // The environment is that of a user's shell: ctest's settings for OpenMP are meant for the test programs only.
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("OMP_")) environment.push_back(*variable);
  environment.push_back(nullptr);
  const std::string out = target(options.out, "out"), err = target(options.err, "err");
  pid_ = ::fork();
  if (pid_ < 0) ADD_FAILURE() << "could not fork";
  if (pid_ != 0) return;
  // The child may only make system calls, since other threads may have held the C library's locks. If the test was
  // started in the background it ignores Ctrl-C, and a shell that inherits that could never react to it.
  ::signal(SIGINT, SIG_DFL);
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  if (::chdir(options.folder.c_str()) == 0) ::execve(arguments[0], arguments.data(), environment.data());
  ::_exit(127);
}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

bool Process::catches(int number) const {
  for (const auto& line : lines_of(text_of("/proc/" + std::to_string(pid_) + "/status")))
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) >> (number - 1) & 1) != 0;
  return false;
}

void Process::wait_until(const std::function<bool()>& condition) {
  while (!condition()) {
    ASSERT_FALSE(ended()) << "it ended before it was where the test wants it: " << text_of(capture_.path() / "err");
    ASSERT_TRUE(in_time());
    pause();
  }
}

Finished Process::wait() {
  while (!ended() && in_time()) pause();
  if (pid_ > 0) {
    ADD_FAILURE() << "killed after " << timeout_s_ << " s";
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    pid_ = 0;
  }
  return {.exit = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_),
          .out = text_of(capture_.path() / "out"),
          .err = text_of(capture_.path() / "err")};
}

std::string Process::target(const std::string& wanted, const char* name) const {
  return wanted.empty() ? (capture_.path() / name).string() : wanted;
}

bool Process::ended() {
  if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ <= 0;
}

bool Process::in_time() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count() < timeout_s_;
}

}  // namespace dptrain::testing
