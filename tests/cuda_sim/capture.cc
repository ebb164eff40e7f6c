// Stream capture: work for a capturing stream becomes a node of a graph. Rules: Programming Guide, "Creating a Graph
// Using Stream Capture", and the API reference of cudaStreamBeginCapture and cudaThreadExchangeStreamCaptureMode.
#include <algorithm>

#include "runtime.h"

using namespace dptrain::cuda_sim;

namespace dptrain::cuda_sim {
namespace {

cudaError_t spoil(Capture& capture, cudaError_t error) {
  if (capture.state == CaptureState::kActive) capture.state = CaptureState::kInvalid;
  return error;
}

void unite(std::vector<std::size_t>& into, const std::vector<std::size_t>& from) {
  for (const std::size_t node : from) {
    if (std::find(into.begin(), into.end(), node) == into.end()) into.push_back(node);
  }
}

// Takes every stream out of the capture.
void release(const std::shared_ptr<Capture>& capture) {
  for (CUstream_st* stream : capture->streams) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
  capture->streams.clear();
  std::erase(runtime().captures, capture);
}

// Whether the origin's last nodes follow every node, so that no stream was left unjoined.
bool joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size(), false);
  std::vector<std::size_t> pending(capture.origin->capture_tail);
  while (!pending.empty()) {
    const std::size_t node = pending.back();
    pending.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    unite(pending, capture.nodes[node]->predecessors);
  }
  return std::all_of(reached.begin(), reached.end(), [](bool is) { return is; });
}

}  // namespace

cudaError_t check_unsafe() {
  if (caller().capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : runtime().captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool own = capture->owner == &caller();
    const bool everyone =
        capture->mode == cudaStreamCaptureModeGlobal && caller().capture_mode == cudaStreamCaptureModeGlobal;
    if (own || everyone) error = spoil(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t check_not_capturing(const CUstream_st& stream) {
  if (stream.capture != nullptr) return spoil(*stream.capture, cudaErrorStreamCaptureUnsupported);
  return check_legacy(stream);
}

cudaError_t check_device_not_capturing(int device) {
  cudaError_t error = cudaSuccess;
  for (const CUstream_st* stream : runtime().devices[static_cast<std::size_t>(device)].streams) {
    if (stream->capture != nullptr) error = spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t check_legacy(const CUstream_st& stream) {
  if (!stream.legacy) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const CUstream_st* other : runtime().devices[static_cast<std::size_t>(stream.device)].streams) {
    if (other->capture == nullptr || (other->flags & cudaStreamNonBlocking) != 0) continue;
    error = spoil(*other->capture, cudaErrorStreamCaptureImplicit);
  }
  return error;
}

cudaError_t capture_work(CUstream_st& stream, const std::vector<Work>& works) {
  Capture& capture = *stream.capture;
  if (capture.state != CaptureState::kActive) return cudaErrorStreamCaptureInvalidated;
  std::vector<std::size_t> made;
  for (const Work& work : works) {
    auto node = std::make_shared<CUgraphNode_st>();
    node->work = work;
    node->device = stream.device;
    node->predecessors = stream.capture_tail;
    made.push_back(capture.nodes.size());
    capture.nodes.push_back(std::move(node));
  }
  if (!made.empty()) stream.capture_tail = made;
  return cudaSuccess;
}

cudaError_t capture_wait(CUstream_st& stream, CUevent_st& event) {
  if (event.capture == nullptr) {
    if (event.op == nullptr) return cudaSuccess;  // never recorded
    return spoil(*stream.capture, cudaErrorStreamCaptureIsolation);
  }
  if (event.capture->state == CaptureState::kEnded) {
    if (stream.capture != nullptr) return spoil(*stream.capture, cudaErrorStreamCaptureIsolation);
    return cudaErrorCapturedEvent;
  }
  if (event.capture->state == CaptureState::kInvalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture == nullptr) {
    if (stream.legacy) return spoil(*event.capture, cudaErrorStreamCaptureImplicit);
    stream.capture = event.capture;
    stream.capture->streams.insert(&stream);
  } else if (stream.capture != event.capture) {
    spoil(*event.capture, cudaSuccess);
    return spoil(*stream.capture, cudaErrorStreamCaptureMerge);
  }
  unite(stream.capture_tail, event.capture_tail);
  return cudaSuccess;
}

}  // namespace dptrain::cuda_sim

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamBeginCapture: no such stream");
  if (stream->legacy) return refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture: the legacy stream");
  if (stream->capture != nullptr) return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture: it captures already");
  static unsigned long long captures = 0;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->owner = &caller();
  capture->origin = stream;
  capture->id = ++captures;
  capture->streams.insert(stream);
  runtime().captures.push_back(capture);
  stream->capture = capture;
  stream->capture_tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamEndCapture: no such stream");
  if (graph == nullptr) return finish(cudaErrorInvalidValue);
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return refuse(cudaErrorIllegalState, "cudaStreamEndCapture: the stream does not capture");
  if (capture->origin != stream) {
    spoil(*capture, cudaSuccess);
    return refuse(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture: not the stream that began the capture");
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->owner != &caller()) {
    return refuse(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture: not the thread that began the capture");
  }
  const bool valid = capture->state == CaptureState::kActive;
  const bool whole = joined(*capture);
  release(capture);
  capture->state = CaptureState::kEnded;
  if (!valid) return finish(cudaErrorStreamCaptureInvalidated);
  if (!whole) return refuse(cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture: a stream was not joined back");
  *graph = new CUgraph_st{capture->nodes};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = usable(); error != cudaSuccess) return finish(error);
  const CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (status == nullptr) return finish(cudaErrorInvalidValue);
  if (graph != nullptr || dependencies != nullptr || edges != nullptr || count != nullptr) {
    return refuse(cudaErrorNotSupported, "cudaStreamGetCaptureInfo: only the status and the id are simulated");
  }
  if (const cudaError_t error = check_legacy(*stream); error != cudaSuccess) return finish(error);
  *status = cudaStreamCaptureStatusNone;
  if (stream->capture != nullptr) {
    *status = stream->capture->state == CaptureState::kActive ? cudaStreamCaptureStatusActive
                                                              : cudaStreamCaptureStatusInvalidated;
    if (id != nullptr) *id = stream->capture->id;
  }
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr) return finish(cudaErrorInvalidValue);
  std::swap(*mode, caller().capture_mode);
  return cudaSuccess;
}

}  // extern "C"
