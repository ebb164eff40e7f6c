#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace dptrain::testing {

/// Expects `body` to throw an Error with this code whose message contains all of `words`.
template <class Body>
void expect_refusal(ExitCode code, const std::vector<std::string>& words, const Body& body) {
  try {
    body();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << "'" << word << "' in: " << error.what();
  }
}

}  // namespace dptrain::testing
