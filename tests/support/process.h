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

/// The whole text of a file; "" where there is no file.
std::string text_of(const std::filesystem::path& path);

std::vector<std::string> lines_of(const std::string& text);

/// How a program ended, and what it wrote.
struct Finished {
  int exit = -1;  ///< 128 + signal where a signal killed it, as in a shell
  std::string out;
  std::string err;

  std::string last_error() const;
};

struct ProcessOptions {
  std::vector<std::string> command;
  std::filesystem::path folder;  ///< working folder
  double timeout_s = 240;        ///< after it the program is killed, which fails the test
  /// Where stdout goes: "" captures it, "closed" closes it, and anything else is a file, such as /dev/full.
  std::string out;
  std::string err;
};

/// A program that runs beside the test. It is killed if it still runs when the object ends.
class Process {
 public:
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  /// Sends a signal. Does nothing if the program has ended: another process may have its id by now, and id 0 would be
  /// our own group.
  void signal(int number) const;

  /// Whether the program already has its handler for the signal. Without a handler, the signal would end it.
  bool catches(int number) const;

  /// Blocks until `condition` holds; fails the test if the program ends before that.
  void wait_until(const std::function<bool()>& condition);

  /// Blocks until the program has ended.
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
