#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "base/exit_code.h"

namespace dptrain {

/// A mistake, in the four parts that every message to a user has:
/// "<where>: <expected>, got <got>; <advice>". Empty parts are left out.
struct Mistake {
  std::string where;     ///< "configs/a.yaml:12: devices", a file, a tensor
  std::string expected;  ///< "expected an integer from 1 to 64"
  std::string got;       ///< "'many'"
  std::string advice;    ///< "write devices: 2"

  /// The message in one sentence.
  std::string sentence() const;
};

/// A failure that ends the program with `code()`. `what()` is one sentence: the root cause. Control characters in it,
/// such as those of a user's text, are written as escapes: \n.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence);
  Error(ExitCode code, const Mistake& mistake);
  /// Holds several mistakes, one per line. `what()` is the first one and the number of all others. `lines` must not be
  /// empty.
  Error(ExitCode code, std::vector<std::string> lines);

  ExitCode code() const noexcept { return code_; }
  /// All mistakes, one per line. A single mistake has one line.
  const std::vector<std::string>& lines() const noexcept { return lines_; }
  /// Whether the message begins with the place of the mistake.
  bool says_where() const noexcept { return says_where_; }

 private:
  ExitCode code_;
  std::vector<std::string> lines_;
  bool says_where_ = false;
};

/// Calls `work`. If it throws an Error, puts `prefix` and ": " in front of the error's sentence.
template <typename Work>
auto with_prefix(const std::string& prefix, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.code(), prefix + ": " + error.what());
  }
}

}  // namespace dptrain
