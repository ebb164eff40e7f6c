#pragma once

#include <exception>

#include "base/error.h"

namespace dptrain::app {

/// Converts any exception to the Error that the user gets: an exit code and a sentence.
Error as_error(const std::exception& exception);

}  // namespace dptrain::app
