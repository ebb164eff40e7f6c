#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "support/idx_files.h"

namespace dptrain::testing {

/// The whole of a file; "" where there is none.
std::string text_of(const std::filesystem::path& path);

std::vector<std::string> lines_of(const std::string& text);

/// How a program ended, and what it wrote.
struct Finished {
  int exit = -1;  ///< 128 + signal where one killed it, as a shell says it
  std::string out;
  std::string err;

  std::string last_error() const;
};

struct ProcessOptions {
  std::vector<std::string> command;
  std::filesystem::path folder;  ///< that it works in
  double timeout_s = 240;        ///< after which it is killed, which fails the test
  /// Where stdout goes: "" is captured, "closed" is not open at all, anything else is a file, such as /dev/full.
  std::string out;
  std::string err;
};

/// A program that runs beside the test; killed where the test leaves it running.
class Process {
 public:
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Nothing where it has ended: its number may be another's by now, and 0 would be our own group.
  void signal(int number) const;

  /// Whether it has come to where it catches the signal, by which it would be ended before.
  bool catches(int number) const;

  /// Blocks until `condition` holds; fails the test where the program ends before that.
  void wait_until(const std::function<bool()>& condition);

  /// Blocks until it has ended.
  Finished wait();

 private:
  std::string target(const std::string& wanted, const char* name) const;
  bool ended();
  bool in_time() const;

  double timeout_s_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  ScratchFolder capture_;
  pid_t pid_ = -1;
  int status_ = 0;
};

}  // namespace dptrain::testing
