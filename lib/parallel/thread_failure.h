#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace dptrain::parallel {

/// What has ended a thread, as one sentence with its exit code: "<who>: <cause>". A failure of the job stays in the
/// words that all processes say it in, and a mistake in a configuration that says where it is in its own.
Error described(const std::string& who, std::exception_ptr failure);

}  // namespace dptrain::parallel
