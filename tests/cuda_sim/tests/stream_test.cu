// Streams, events and memory: work that CUDA may postpone until something waits for it is postponed.
#include <atomic>
#include <cmath>
#include <thread>

#include "machine.h"

namespace {

__global__ void set(float* x, float value) { *x = value; }
__global__ void copy(const float* from, float* to) { *to = *from; }

TEST(Stream, AMissingEventWaitShows) {
  for (const bool waits : {true, false}) {
    Stream a, b;
    Event ready;
    Array<float> x(1), y(1);
    launch(a, 1, 1, set, x.data, 5.0f);
    cudaEventRecord(ready, a);
    if (waits) cudaStreamWaitEvent(b, ready, 0);
    launch(b, 1, 1, copy, x.data, y.data);
    ASSERT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    EXPECT_EQ(std::isnan(y.read()[0]), !waits);
  }
}

TEST(Stream, NothingRunsBeforeAWait) {
  Stream stream;
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(float)), cudaSuccess);
  *pinned = 0;
  Array<float> x(1);
  launch(stream, 1, 1, set, x.data, 5.0f);
  cudaMemcpyAsync(pinned, x.data, sizeof(float), cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(*pinned, 0.0f);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  int queries = 1;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++queries;
  EXPECT_EQ(queries, 2);
  EXPECT_EQ(*pinned, 5.0f);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Stream, PageableSourcesAreReadAtTheCallPinnedOnesLater) {
  Stream stream;
  float pageable = 1, *pinned = nullptr;
  cudaMallocHost(&pinned, sizeof(float));
  *pinned = 1;
  Array<float> x(2);
  cudaMemcpyAsync(x.data, &pageable, sizeof(float), cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(x.data + 1, pinned, sizeof(float), cudaMemcpyHostToDevice, stream);
  pageable = *pinned = 2;
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.read(), (std::vector<float>{1, 2}));
  cudaFreeHost(pinned);
}

TEST(Stream, AThreadWaitsForWorkThatAnotherStillHasToGive) {
  Stream a;
  Event done;
  Array<float> x(1);
  std::atomic<bool> ran = false;
  cudaLaunchHostFunc(
      a, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->wait(false); }, &ran);
  cudaEventRecord(done, a);
  std::thread giver([&] {
    ran = true;
    ran.notify_all();
  });
  EXPECT_EQ(cudaEventSynchronize(done), cudaSuccess);
  giver.join();
}

TEST(Stream, EventsTimeAndAnUnrecordedEventIsComplete) {
  Stream stream;
  Event begin, end;
  EXPECT_EQ(cudaEventQuery(begin), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, begin, 0), cudaSuccess);
  cudaEventRecord(begin, stream);
  cudaEventRecord(end, stream);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  cudaEventSynchronize(end);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GT(ms, 0.0f);
}

TEST(Memory, IsBoundedAndFilledWithNaN) {
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  void* most = nullptr;
  EXPECT_EQ(cudaMalloc(&most, free + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  Array<float> x(3);
  EXPECT_TRUE(std::isnan(x.read()[2]));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data) % 256, 0u);
  EXPECT_EQ(cudaFree(x.data + 1), cudaErrorInvalidValue);
  std::size_t after = 0;
  cudaMemGetInfo(&after, &total);
  EXPECT_EQ(free - after, 12u);
}

TEST(Memory, RefusesCopiesOutOfRangeOrAgainstTheirKind) {
  Array<char> x(100), y(100);
  std::vector<char> host(200);
  EXPECT_EQ(cudaMemcpyAsync(x.data, host.data(), 101, cudaMemcpyHostToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data + 50, y.data, 51, cudaMemcpyDeviceToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(x.data + 1, 0, 100, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data, y.data, 100, cudaMemcpyHostToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host.data(), x.data, 100, cudaMemcpyDeviceToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x.data, y.data, 100, cudaMemcpyDefault, nullptr), cudaSuccess);
}

}  // namespace
