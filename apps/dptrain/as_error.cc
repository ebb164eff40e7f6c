#include "as_error.h"

#include <fmt/format.h>

#include <new>
#include <system_error>

namespace dptrain::app {

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception))
    return error->code() == std::errc::resource_unavailable_try_again
               ? Error(ExitCode::device, "the system refused a thread; is there a limit on processes, ulimit -u?")
               : Error(ExitCode::io, error->what());
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return Error(ExitCode::device, "out of host memory; use a smaller batch or model");
  return Error(ExitCode::bug, fmt::format("{}; this is a bug in dptrain, please report it", exception.what()));
}

}  // namespace dptrain::app
