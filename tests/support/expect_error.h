#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "base/error.h"

namespace dptrain::testing {

/// Expects that `action` throws an Error with this code whose message contains every one of `words`.
template <class Action>
void expect_error(ExitCode code, std::initializer_list<std::string_view> words, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string_view word : words)
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos)
          << "no '" << word << "' in: " << error.what();
  }
}

}  // namespace dptrain::testing
