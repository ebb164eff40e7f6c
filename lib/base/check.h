#pragma once

#include <fmt/format.h>

#include "base/error.h"

namespace dptrain {

/// Throws Error(ExitCode::bug) with the file and line. DPTRAIN_CHECK calls it.
[[noreturn]] void report_bug(const char* file, int line, const char* condition, const std::string& message);

}  // namespace dptrain

/// Checks an invariant of our own code, in every build. The arguments after the condition are a fmt format and its
/// values.
#define DPTRAIN_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::dptrain::report_bug(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
