#include "device/cuda_graph.h"

#include <utility>

#include "device/cuda_check.h"

namespace dptrain {
namespace {

class CudaGraph final : public RecordedWork {
 public:
  CudaGraph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    // An empty graph need not be launched, for instance if there are no gradients to complete.
    size_t nodes = 0;
    const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &nodes);
    if (counted != cudaSuccess) cudaGraphDestroy(graph);
    cuda_check(counted, "cudaGraphGetNodes");
    is_empty_ = nodes == 0;
    // Nodes keep the priorities of the streams that they were captured from, so sums go before the computation that
    // hides them.
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    cudaGraphDestroy(graph);
    cuda_check(status, "cudaGraphInstantiate");
    const cudaError_t uploaded = cudaGraphUpload(executable_, stream);
    // Nobody else would destroy it, and its recorded NCCL work would keep a communicator from ending.
    if (uploaded != cudaSuccess) cudaGraphExecDestroy(executable_);
    cuda_check(uploaded, "cudaGraphUpload");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void run() override {
    if (!is_empty_) cuda_check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
  }

 private:
  cudaStream_t stream_;
  bool is_empty_ = false;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::unique_ptr<RecordedWork> capture_cuda_graph(cudaStream_t stream, const std::function<void()>& give) {
  cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    give();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // so that the next call doesn't report the spoilt capture
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(graph, stream);
}

// If the runtime refuses, the next call reports it.
OutsideCapture::OutsideCapture() noexcept { cudaThreadExchangeStreamCaptureMode(&mode_); }

OutsideCapture::~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

}  // namespace dptrain
