// Collectives among threads, each with a simulated device.
#include <nccl.h>

#include <functional>
#include <thread>

#include "machine.h"

namespace {

// Runs `body` in one thread per rank, with rank r on device r.
void for_ranks(int ranks, const std::function<void(int, ncclComm_t, cudaStream_t)>& body) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess);
      Stream stream;
      body(rank, comm, stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> ramp(std::size_t n, int rank) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i) + 1000.0f * static_cast<float>(rank);
  return x;
}

class Nccl : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    if (devices < GetParam()) GTEST_SKIP() << "needs DPTRAIN_CUDA_SIM_DEVICES=" << GetParam();
  }
};

TEST_P(Nccl, Collectives) {
  const int ranks = GetParam();
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t n = 200;
  for_ranks(ranks, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    Array<float> x(ramp(n * count, rank)), sum(n * count), part(n), all(n * count);
    ASSERT_EQ(ncclAllReduce(x.data, sum.data, n * count, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclReduceScatter(x.data, part.data, n, ncclFloat, ncclMax, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclAllGather(part.data, all.data, n, ncclFloat, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclBroadcast(x.data, x.data, n, ncclFloat, 1, comm, stream), ncclSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const std::vector<float> s = sum.read(), a = all.read(), b = x.read();
    const float ranks_f = static_cast<float>(ranks);
    for (std::size_t i = 0; i < n * count; ++i) {
      ASSERT_EQ(s[i], ranks_f * static_cast<float>(i) + 500.0f * ranks_f * (ranks_f - 1));
      ASSERT_EQ(a[i], static_cast<float>(i) + 1000.0f * (ranks_f - 1));
    }
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(b[i], static_cast<float>(i) + 1000.0f);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST_P(Nccl, ARingOfSendsAndReceivesInAGroup) {
  const int ranks = GetParam();
  for_ranks(ranks, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    Array<float> x(ramp(3, rank)), y(3);
    ncclGroupStart();
    EXPECT_EQ(ncclSend(x.data, 3, ncclFloat, (rank + 1) % ranks, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(y.data, 3, ncclFloat, (rank + ranks - 1) % ranks, comm, stream), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    cudaStreamSynchronize(stream);
    EXPECT_EQ(y.read(), ramp(3, (rank + ranks - 1) % ranks));
    ncclCommDestroy(comm);
  });
}

TEST_P(Nccl, CollectivesAreCaptured) {
  for_ranks(GetParam(), [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    Array<float> x(std::vector<float>{1.0f + static_cast<float>(rank)});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(ncclAllReduce(x.data, x.data, 1, ncclFloat, ncclSum, comm, stream), ncclSuccess);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    cudaStreamSynchronize(stream);
    const float ranks = static_cast<float>(GetParam());
    EXPECT_EQ(x.read()[0], ranks * ranks * (ranks + 1) / 2);
    ncclCommDestroy(comm);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
}

TEST_P(Nccl, AnAbortEndsTheOthersCalls) {
  for_ranks(GetParam(), [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    if (rank == 0) {
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    Array<float> x(1);
    const ncclResult_t given = ncclAllReduce(x.data, x.data, 1, ncclFloat, ncclSum, comm, stream);
    EXPECT_TRUE(given == ncclSuccess || given == ncclRemoteError);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    EXPECT_EQ(error, ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

TEST_P(Nccl, CallsThatDifferAreAnError) {
  for_ranks(GetParam(), [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    Array<float> x(2);
    ncclAllReduce(x.data, x.data, rank == 0 ? 1 : 2, ncclFloat, ncclSum, comm, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ncclResult_t error = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    EXPECT_EQ(error, ncclInvalidArgument);
    ncclCommAbort(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Nccl, ::testing::Values(2, 3));

TEST(NcclInit, RefusesTwoRanksOnADevice) {
  ncclComm_t comms[2] = {};
  const int devices[2] = {0, 0};
  EXPECT_EQ(ncclCommInitAll(comms, 2, devices), ncclInvalidUsage);
}

TEST(NcclInit, NonBlockingIsInProgressFirst) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {};
  ncclResult_t state = ncclSuccess;
  for (int rank = 0; rank < 2; ++rank) {
    cudaSetDevice(rank);
    EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
    EXPECT_EQ(ncclCommGetAsyncError(comms[rank], &state), ncclSuccess);
    EXPECT_EQ(state, ncclInProgress);
  }
  cudaSetDevice(0);
  ncclCommGetAsyncError(comms[1], &state);
  EXPECT_EQ(state, ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
