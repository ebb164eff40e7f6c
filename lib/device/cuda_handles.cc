#include "device/cuda_handles.h"

#include "device/cuda_check.h"

namespace dptrain {

CudaEvent::CudaEvent(WaitedFor waited_for) {
  const unsigned sleeps = waited_for == WaitedFor::by_host ? cudaEventBlockingSync : 0;
  cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | sleeps), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void CudaEvent::record(cudaStream_t stream) { cuda_check(cudaEventRecord(event_, stream), "cudaEventRecord"); }

void CudaEvent::block(cudaStream_t stream) const {
  cuda_check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

bool CudaEvent::done() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // so that the next call doesn't report it
    return false;
  }
  cuda_check(status, "cudaEventQuery");
  return true;
}

void CudaEvent::synchronize() const { cuda_check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

CudaTimer::CudaTimer() {
  cuda_check(cudaEventCreate(&begin_), "cudaEventCreate");
  cuda_check(cudaEventCreate(&end_), "cudaEventCreate");
}

CudaTimer::~CudaTimer() {
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
}

void CudaTimer::start(cudaStream_t stream) { cuda_check(cudaEventRecord(begin_, stream), "cudaEventRecord"); }

void CudaTimer::stop(cudaStream_t stream) { cuda_check(cudaEventRecord(end_, stream), "cudaEventRecord"); }

float CudaTimer::milliseconds() const {
  float elapsed_ms = 0;
  cuda_check(cudaEventSynchronize(end_), "cudaEventSynchronize");
  cuda_check(cudaEventElapsedTime(&elapsed_ms, begin_, end_), "cudaEventElapsedTime");
  return elapsed_ms;
}

CudaStream::CudaStream(Priority priority) {
  int least = 0, greatest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cuda_check(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority == Priority::highest ? greatest : least),
      "cudaStreamCreateWithPriority");
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

}  // namespace dptrain
