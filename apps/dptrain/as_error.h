#pragma once

#include <exception>

#include "base/error.h"

namespace dptrain::app {

/// What any exception is to the user: its exit code and sentence.
Error as_error(const std::exception& exception);

}  // namespace dptrain::app
