// Stream capture and replays.
#include <cmath>
#include <thread>

#include "machine.h"

namespace {

__global__ void add(float* x, float by, const float* more) { *x += by + *more; }
__global__ void set(float* x, float value) { *x = value; }
__global__ void copy(const float* from, float* to) { *to = *from; }

struct Graph {
  ~Graph() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaError_t end(cudaStream_t stream) {
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    return error != cudaSuccess ? error : cudaGraphInstantiate(&exec, graph, 0);
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

TEST(Graph, HostValuesStayThoseOfTheCapture) {
  Stream stream;
  Array<float> x(std::vector<float>{0}), block(std::vector<float>{10});
  float rate = 1;
  Graph graph;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch(stream, 1, 1, add, x.data, rate, block.data);
  ASSERT_EQ(graph.end(stream), cudaSuccess);
  std::size_t nodes = 0;
  cudaGraphGetNodes(graph.graph, nullptr, &nodes);
  EXPECT_EQ(nodes, 1u);
  EXPECT_EQ(x.read()[0], 0.0f);
  rate = 5;
  ASSERT_EQ(cudaGraphLaunch(graph.exec, stream), cudaSuccess);
  launch(stream, 1, 1, set, block.data, 100.0f);
  ASSERT_EQ(cudaGraphLaunch(graph.exec, stream), cudaSuccess);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.read()[0], 1 + 10 + 1 + 100.0f);
}

// Two captured streams that are forked and joined. With `ordered` the second waits for the first's result.
float forked(bool ordered) {
  Stream a, b;
  Event fork, made, join;
  Array<float> x(1), y(1);
  Graph graph;
  EXPECT_EQ(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaEventRecord(fork, a);
  cudaStreamWaitEvent(b, fork, 0);
  launch(a, 1, 1, set, x.data, 5.0f);
  cudaEventRecord(made, a);
  if (ordered) cudaStreamWaitEvent(b, made, 0);
  launch(b, 1, 1, copy, x.data, y.data);
  cudaEventRecord(join, b);
  cudaStreamWaitEvent(a, join, 0);
  EXPECT_EQ(graph.end(a), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(graph.exec, a), cudaSuccess);
  cudaStreamSynchronize(a);
  return y.read()[0];
}

TEST(Graph, AMissingDependencyBetweenCapturedStreamsShows) {
  EXPECT_EQ(forked(true), 5.0f);
  EXPECT_TRUE(std::isnan(forked(false)));
}

TEST(Graph, RefusesAStreamThatWasNotJoined) {
  Stream a, b;
  Event fork;
  Array<float> x(1);
  Graph graph;
  cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(fork, a);
  cudaStreamWaitEvent(b, fork, 0);
  launch(b, 1, 1, set, x.data, 5.0f);
  EXPECT_EQ(graph.end(a), cudaErrorStreamCaptureUnjoined);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(b, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
}

template <typename Call>
void expect_forbidden(Call call, bool elsewhere = false) {
  Stream stream;
  Array<float> x(1);
  Graph graph;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch(stream, 1, 1, set, x.data, 5.0f);
  if (elsewhere) {
    std::thread([&] { EXPECT_EQ(call(stream, x.data), cudaErrorStreamCaptureUnsupported); }).join();
  } else {
    EXPECT_EQ(call(stream, x.data), cudaErrorStreamCaptureUnsupported);
  }
  EXPECT_EQ(launch(stream, 1, 1, set, x.data, 5.0f), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph.end(stream), cudaErrorStreamCaptureInvalidated);
}

TEST(Graph, ForbiddenCallsSpoilACapture) {
  void* memory = nullptr;
  float host = 0;
  expect_forbidden([&](cudaStream_t, float*) { return cudaMalloc(&memory, 4); });
  expect_forbidden([&](cudaStream_t, float* x) { return cudaFree(x); });
  expect_forbidden([&](cudaStream_t stream, float*) { return cudaStreamSynchronize(stream); }, true);
  expect_forbidden([&](cudaStream_t stream, float*) { return cudaStreamQuery(stream); }, true);
  expect_forbidden([&](cudaStream_t, float*) { return cudaDeviceSynchronize(); });
  expect_forbidden([&](cudaStream_t, float* x) { return cudaMemcpy(&host, x, 4, cudaMemcpyDeviceToHost); });
  expect_forbidden([&](cudaStream_t s, float* x) { return cudaMemcpyAsync(&host, x, 4, cudaMemcpyDeviceToHost, s); });
}

TEST(Graph, ThreadLocalCapturesLeaveOtherThreadsAlone) {
  Stream stream;
  Graph graph;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  std::thread([] {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }).join();
  EXPECT_EQ(graph.end(stream), cudaSuccess);
}

TEST(Graph, WorkOutsideOfACaptureCannotBeWaitedForInIt) {
  Stream a, b;
  Event outside;
  Array<float> x(1);
  Graph graph;
  launch(b, 1, 1, set, x.data, 5.0f);
  cudaEventRecord(outside, b);
  cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaStreamWaitEvent(a, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(graph.end(a), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
