// Copies and fills, with their ranges and directions checked.
#include <cstring>
#include <sstream>

#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

// The place of a range. Sets `why` to a message if the range isn't inside one live allocation.
Place locate(const void* address, std::size_t bytes, const char* role, std::string& why) {
  std::size_t after = 0;
  const Allocation* allocation = find_allocation(address, &after);
  if (allocation == nullptr) return Place::kPageable;
  if (bytes > after) {
    std::ostringstream out;
    out << role << ": expected at most " << after << " bytes to the end of the allocation, got " << bytes;
    why = out.str();
  }
  return allocation->place;
}

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  cudaMemcpyKind kind;
  const char* call;
};

const char* name(bool device) { return device ? "device memory" : "host memory"; }

// Empty if ranges and direction are right.
std::string fault(const Copy& copy, Place& to, Place& from) {
  std::string why;
  to = locate(copy.to, copy.bytes, "destination", why);
  from = locate(copy.from, copy.bytes, "source", why);
  if (!why.empty() || copy.kind == cudaMemcpyDefault) return why;
  const bool to_device = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
  const bool from_device = copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
  if (to_device != (to == Place::kDevice)) {
    why = std::string("destination: expected ") + name(to_device) + " by the kind, got " + name(!to_device);
  } else if (from_device != (from == Place::kDevice)) {
    why = std::string("source: expected ") + name(from_device) + " by the kind, got " + name(!from_device);
  }
  return why;
}

// With `blocking` it returns when the copy is done, as the calls without Async do.
cudaError_t copy(Lock& lock, const Copy& copy, cudaStream_t handle, bool blocking) {
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, std::string(copy.call) + ": no such stream");
  if (static_cast<unsigned>(copy.kind) > cudaMemcpyDefault) return finish(cudaErrorInvalidMemcpyDirection);
  if (blocking) {
    if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return finish(error);
  }
  if (copy.bytes == 0) return cudaSuccess;
  Place to{}, from{};
  if (const std::string why = fault(copy, to, from); !why.empty()) {
    return refuse(cudaErrorInvalidValue, std::string(copy.call) + ": " + why);
  }
  const bool pageable = to == Place::kPageable || from == Place::kPageable;
  if (pageable && stream->capture != nullptr) {
    if (stream->capture->state == CaptureState::kActive) stream->capture->state = CaptureState::kInvalid;
    return refuse(cudaErrorStreamCaptureUnsupported, std::string(copy.call) + ": pageable memory in a capture");
  }
  Work work;
  work.type = cudaGraphNodeTypeMemcpy;
  if (from == Place::kPageable) {
    const auto* first = static_cast<const char*>(copy.from);
    auto staged = std::make_shared<std::vector<char>>(first, first + copy.bytes);
    work.body = [to = copy.to, staged] {
      std::memcpy(to, staged->data(), staged->size());
      return cudaSuccess;
    };
  } else {
    work.body = [to = copy.to, from = copy.from, bytes = copy.bytes] {
      std::memmove(to, from, bytes);
      return cudaSuccess;
    };
  }
  OpPtr op;
  const int device = stream->device;
  if (const cudaError_t error = submit(*stream, work, &op); error != cudaSuccess) return finish(error);
  if (blocking || to == Place::kPageable) {
    wait_for(lock, {op});
    return finish(runtime().devices[static_cast<std::size_t>(device)].sticky);
  }
  return cudaSuccess;
}

cudaError_t fill(Lock&, void* to, int value, std::size_t bytes, cudaStream_t handle, const char* call) {
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, std::string(call) + ": no such stream");
  if (bytes == 0) return cudaSuccess;
  std::string why;
  if (locate(to, bytes, "destination", why) == Place::kPageable) why = "destination: expected device memory";
  if (!why.empty()) return refuse(cudaErrorInvalidValue, std::string(call) + ": " + why);
  Work work;
  work.type = cudaGraphNodeTypeMemset;
  work.body = [to, value, bytes] {
    std::memset(to, value, bytes);
    return cudaSuccess;
  };
  return finish(submit(*stream, work));
}

}  // namespace
}  // namespace dptrain::cuda_sim

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  return copy(lock, {to, from, bytes, kind, "cudaMemcpyAsync"}, stream, false);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  Lock lock(runtime().mutex);
  return copy(lock, {to, from, bytes, kind, "cudaMemcpy"}, nullptr, true);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  return copy(lock, {to, from, bytes, cudaMemcpyDeviceToDevice, "cudaMemcpyPeerAsync"}, stream, false);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t bytes) {
  Lock lock(runtime().mutex);
  return copy(lock, {to, from, bytes, cudaMemcpyDeviceToDevice, "cudaMemcpyPeer"}, nullptr, true);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  return fill(lock, to, value, bytes, stream, "cudaMemsetAsync");
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  Lock lock(runtime().mutex);
  return fill(lock, to, value, bytes, nullptr, "cudaMemset");
}

}  // extern "C"
