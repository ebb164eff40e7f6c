// Streams: order, waits and host functions.
#include <algorithm>

#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {

CUstream_st* find_stream(cudaStream_t handle) {
  Runtime& machine = runtime();
  const int current = caller().device;
  if (handle == nullptr || handle == cudaStreamLegacy) {
    auto& legacy = machine.devices[static_cast<std::size_t>(current)].legacy;
    if (legacy == nullptr) {
      legacy = std::make_unique<CUstream_st>();
      legacy->device = current;
      legacy->legacy = true;
    }
    return legacy.get();
  }
  if (handle == cudaStreamPerThread) {
    auto& own = caller().own_streams[current];
    if (own == nullptr) {
      own = std::make_unique<CUstream_st>();
      own->device = current;
      machine.devices[static_cast<std::size_t>(current)].streams.insert(own.get());
    }
    return own.get();
  }
  return machine.streams.contains(handle) ? handle : nullptr;
}

Caller::~Caller() {
  Lock lock(runtime().mutex);
  for (auto& [device, stream] : own_streams) {
    Device& place = runtime().devices[static_cast<std::size_t>(device)];
    place.streams.erase(stream.get());
    place.orphans.push_back(stream->tail);
  }
}

std::vector<OpPtr> tails(const CUstream_st& stream) {
  std::vector<OpPtr> found{stream.tail};
  const Device& device = runtime().devices[static_cast<std::size_t>(stream.device)];
  if (stream.legacy) {
    for (const CUstream_st* other : device.streams) {
      if ((other->flags & cudaStreamNonBlocking) == 0) found.push_back(other->tail);
    }
  } else if ((stream.flags & cudaStreamNonBlocking) == 0 && device.legacy != nullptr) {
    found.push_back(device.legacy->tail);
  }
  return found;
}

std::vector<OpPtr> device_tails(int device) {
  Device& place = runtime().devices[static_cast<std::size_t>(device)];
  std::erase_if(place.orphans, [](const OpPtr& op) { return op == nullptr || op->state == OpState::kDone; });
  std::vector<OpPtr> found(place.orphans);
  for (const CUstream_st* stream : place.streams) found.push_back(stream->tail);
  if (place.legacy != nullptr) found.push_back(place.legacy->tail);
  return found;
}

OpPtr append(CUstream_st& stream, Body body) {
  OpPtr op = make_op(stream.device, std::move(body));
  for (const OpPtr& before : tails(stream)) precede(op, before);
  stream.tail = op;
  return op;
}

cudaError_t submit(CUstream_st& stream, const Work& work, OpPtr* op) {
  if (stream.capture != nullptr) return capture_work(stream, {work});
  if (const cudaError_t error = check_legacy(stream); error != cudaSuccess) return error;
  const OpPtr made = append(stream, work.body);
  if (work.join) work.join(made);
  if (op != nullptr) *op = made;
  return cudaSuccess;
}

cudaError_t submit_group(CUstream_st& stream, const std::vector<Work>& works) {
  if (stream.capture != nullptr) return capture_work(stream, works);
  if (const cudaError_t error = check_legacy(stream); error != cudaSuccess) return error;
  const std::vector<OpPtr> before = tails(stream);
  std::vector<OpPtr> members;
  for (const Work& work : works) {
    members.push_back(make_op(stream.device, work.body));
    for (const OpPtr& op : before) precede(members.back(), op);
    if (work.join) work.join(members.back());
  }
  const OpPtr end = make_op(stream.device, nullptr);
  for (const OpPtr& op : members) precede(end, op);
  stream.tail = end;
  return cudaSuccess;
}

}  // namespace dptrain::cuda_sim

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return finish(cudaErrorInvalidValue);
  }
  auto* made = new CUstream_st;
  made->device = caller().device;
  made->flags = flags;
  made->priority = std::clamp(priority, -5, 0);
  runtime().streams.insert(made);
  runtime().devices[static_cast<std::size_t>(made->device)].streams.insert(made);
  *stream = made;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(runtime().mutex);
  if (!runtime().streams.contains(stream))
    return refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: no stream");
  if (stream->capture != nullptr) {
    if (stream->capture->state == CaptureState::kActive) stream->capture->state = CaptureState::kInvalid;
    stream->capture->streams.erase(stream);
    if (stream->capture->origin == stream) std::erase(runtime().captures, stream->capture);
  }
  Device& device = runtime().devices[static_cast<std::size_t>(stream->device)];
  if (stream->tail != nullptr && stream->tail->state != OpState::kDone) device.orphans.push_back(stream->tail);
  device.streams.erase(stream);
  runtime().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamSynchronize: no such stream");
  if (const cudaError_t error = check_not_capturing(*stream); error != cudaSuccess) return finish(error);
  if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  const int device = stream->device;
  wait_for(lock, stream->legacy ? tails(*stream) : std::vector<OpPtr>{stream->tail});
  return finish(runtime().devices[static_cast<std::size_t>(device)].sticky);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamQuery: no such stream");
  if (const cudaError_t error = check_not_capturing(*stream); error != cudaSuccess) return finish(error);
  const std::vector<OpPtr> ends = stream->legacy ? tails(*stream) : std::vector<OpPtr>{stream->tail};
  for (const OpPtr& end : ends) {
    if (end == nullptr || end->state == OpState::kDone) continue;
    make_progress(lock, end);
    return cudaErrorNotReady;
  }
  return finish(runtime().devices[static_cast<std::size_t>(stream->device)].sticky);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr || !runtime().events.contains(event)) {
    return refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent: no such stream or event");
  }
  if (stream->capture != nullptr || event->capture != nullptr) return finish(capture_wait(*stream, *event));
  if (event->op == nullptr || event->op->state == OpState::kDone) return cudaSuccess;
  precede(append(*stream, nullptr), event->op);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, "cudaLaunchHostFunc: no such stream");
  if (function == nullptr) return finish(cudaErrorInvalidValue);
  Work work;
  work.type = cudaGraphNodeTypeHost;
  work.body = [function, data] {
    function(data);
    return cudaSuccess;
  };
  return finish(submit(*stream, work));
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  Lock lock(runtime().mutex);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  *flags = stream->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  Lock lock(runtime().mutex);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  Lock lock(runtime().mutex);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  *device = stream->device;
  return cudaSuccess;
}

}  // extern "C"
