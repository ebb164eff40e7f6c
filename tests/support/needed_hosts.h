#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace dptrain::testing {

/// Why this machine can't have what a test of several hosts needs, for the test to skip. If the variable
/// DPTRAIN_NEEDS_HOSTS is set, as in continuous integration, a test that skips for this reason also fails.
inline std::string absent_of_hosts(std::string why) {
  const char* needed = std::getenv("DPTRAIN_NEEDS_HOSTS");
  if (!why.empty() && needed != nullptr && *needed != '\0') ADD_FAILURE() << why << ", and DPTRAIN_NEEDS_HOSTS is set";
  return why;
}

}  // namespace dptrain::testing
