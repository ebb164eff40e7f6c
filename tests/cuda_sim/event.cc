// Events: marks in streams.
#include <algorithm>

#include "runtime.h"

using namespace dptrain::cuda_sim;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kKnown) != 0) return finish(cudaErrorInvalidValue);
  auto* made = new CUevent_st;
  made->device = caller().device;
  made->flags = flags;
  runtime().events.insert(made);
  *event = made;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  if (runtime().events.erase(event) == 0) return refuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy: no event");
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || !runtime().events.contains(event)) {
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: no such stream or event");
  }
  if (stream->device != event->device) {
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: event and stream are of different devices");
  }
  if (stream->capture != nullptr) {
    if (stream->capture->state != CaptureState::kActive) return finish(cudaErrorStreamCaptureInvalidated);
    event->capture = stream->capture;
    event->capture_tail = stream->capture_tail;
    event->op = nullptr;
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->op = append(*stream, nullptr);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (!runtime().events.contains(event))
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventSynchronize: no event");
  if (event->capture != nullptr) {
    if (event->capture->state == CaptureState::kActive) event->capture->state = CaptureState::kInvalid;
    return finish(cudaErrorCapturedEvent);
  }
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  const int device = event->device;
  wait_for(lock, {event->op});
  return finish(runtime().devices[static_cast<std::size_t>(device)].sticky);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (!runtime().events.contains(event)) return refuse(cudaErrorInvalidResourceHandle, "cudaEventQuery: no event");
  if (event->capture != nullptr) {
    if (event->capture->state == CaptureState::kActive) event->capture->state = CaptureState::kInvalid;
    return finish(cudaErrorCapturedEvent);
  }
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  if (event->op != nullptr && event->op->state != OpState::kDone) {
    make_progress(lock, event->op);
    return cudaErrorNotReady;
  }
  return finish(runtime().devices[static_cast<std::size_t>(event->device)].sticky);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (!runtime().events.contains(start) || !runtime().events.contains(end) || start->op == nullptr ||
      end->op == nullptr || ((start->flags | end->flags) & cudaEventDisableTiming) != 0) {
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: an event is not recorded or does not time");
  }
  if (start->op->state != OpState::kDone || end->op->state != OpState::kDone) return cudaErrorNotReady;
  const std::chrono::duration<float, std::milli> time = end->op->done_at - start->op->done_at;
  *ms = std::max(time.count(), 0.001f);
  return cudaSuccess;
}

}  // extern "C"
