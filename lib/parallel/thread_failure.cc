#include "parallel/thread_failure.h"

#include <new>

#include "comm/job_failure.h"

namespace dptrain::parallel {

Error described(const std::string& who, std::exception_ptr failure) {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const JobError& error) {
    return error;
  } catch (const Error& error) {
    // A configuration mistake that names its line doesn't depend on who finds it.
    const bool is_of_a_line = error.code() == ExitCode::config && error.says_where();
    return is_of_a_line ? error : Error(error.code(), who + ": " + error.what());
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::device, who + ": out of host memory; use a smaller batch or model");
  } catch (const std::exception& error) {
    return Error(ExitCode::bug, who + ": " + error.what());
  }
}

}  // namespace dptrain::parallel
