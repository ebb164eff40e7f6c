#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace dptrain::parallel {

/// Describes what has ended a thread as one sentence with its exit code: "<who>: <cause>". Two kinds of error keep
/// their own words: a failure of the job, which all processes report alike, and a configuration mistake that names its
/// place.
Error described(const std::string& who, std::exception_ptr failure);

}  // namespace dptrain::parallel
