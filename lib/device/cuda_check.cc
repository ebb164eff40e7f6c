#include "device/cuda_check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace dptrain {
namespace {

/// Whether the error comes from something that recording doesn't allow, by this thread or by another one that uses the
/// GPU.
bool is_of_recording(cudaError_t status) {
  return status >= cudaErrorStreamCaptureUnsupported && status <= cudaErrorStreamCaptureWrongThread;
}

}  // namespace

void cuda_check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  int device = -1;
  cudaGetDevice(&device);
  throw Error(
      ExitCode::device,
      fmt::format("cuda:{}: {} failed: {} ({}){}", device, call, cudaGetErrorString(status), cudaGetErrorName(status),
                  is_of_recording(status) ? "; set cuda_graphs: false to run the steps without recording them" : ""));
}

}  // namespace dptrain
