// Errors: their names, and the errors that a host thread remembers.
#include <cstdio>

#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

struct Named {
  cudaError_t error;
  const char* name;
  const char* text;
};
#define DPTRAIN_NAMED(error, text) \
  Named { error, #error, text }
constexpr Named kErrors[] = {
    DPTRAIN_NAMED(cudaSuccess, "no error"),
    DPTRAIN_NAMED(cudaErrorInvalidValue, "invalid argument"),
    DPTRAIN_NAMED(cudaErrorMemoryAllocation, "out of memory"),
    DPTRAIN_NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    DPTRAIN_NAMED(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    DPTRAIN_NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    DPTRAIN_NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    DPTRAIN_NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    DPTRAIN_NAMED(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    DPTRAIN_NAMED(cudaErrorNotReady, "device not ready"),
    DPTRAIN_NAMED(cudaErrorLaunchFailure, "unspecified launch failure"),
    DPTRAIN_NAMED(cudaErrorNotSupported, "operation not supported"),
    DPTRAIN_NAMED(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    DPTRAIN_NAMED(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    DPTRAIN_NAMED(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    DPTRAIN_NAMED(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    DPTRAIN_NAMED(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef DPTRAIN_NAMED

const Named* find_error(cudaError_t error) {
  for (const Named& named : kErrors) {
    if (named.error == error) return &named;
  }
  return nullptr;
}

}  // namespace

cudaError_t finish(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) caller().last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& why) {
  std::fprintf(stderr, "cuda_sim: %s: %s\n", cudaGetErrorName(error), why.c_str());
  return finish(error);
}

}  // namespace dptrain::cuda_sim

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const Named* named = find_error(error);
  return named != nullptr ? named->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const Named* named = find_error(error);
  return named != nullptr ? named->text : "unrecognized error code";
}
cudaError_t cudaPeekAtLastError() { return caller().last_error; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = caller().last_error;
  Lock lock(runtime().mutex);
  const cudaError_t sticky = usable();
  caller().last_error = sticky == cudaErrorNoDevice ? cudaSuccess : sticky;
  return error;
}

}  // extern "C"
