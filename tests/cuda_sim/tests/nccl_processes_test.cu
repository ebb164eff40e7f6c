// Collectives among processes, each with one simulated device.
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "machine.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCount = 1000;

// The number of files in which ranks of living processes meet, or would have met.
int files_of_worlds() {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    files += entry.path().filename().string().starts_with("dptrain-cuda-sim-nccl-" + std::to_string(getpid()) + '-');
  return files;
}

// Starts rank `rank` of `ranks` on the device of this number, without waiting.
ncclComm_t begin(const ncclUniqueId& id, int ranks, int rank, int device) {
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  return comm;
}

ncclResult_t settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress &&
         std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return state;
}

// Forks a process that runs `body` and exits with code 0 if all its expectations held.
pid_t process(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  body();
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

int exit_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class NcclProcesses : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(ncclGetUniqueId(&id_), ncclSuccess); }
  ncclUniqueId id_{};
};

void sum_and_share(const ncclUniqueId& id, int rank) {
  ncclComm_t comm = begin(id, 2, rank, rank);
  ASSERT_EQ(settled(comm), ncclSuccess);
  Stream stream;
  Array<float> x(std::vector<float>(kCount, 1.0f + static_cast<float>(rank))), all(2 * kCount);
  // Each call reads the result of the call before.
  for (int i = 0; i < 5; ++i) ncclAllReduce(x.data, x.data, kCount, ncclFloat, ncclSum, comm, stream);
  ncclAllGather(x.data, all.data, kCount, ncclFloat, comm, stream);
  ncclBroadcast(x.data, x.data, 1, ncclFloat, 1, comm, stream);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(x.read(), std::vector<float>(kCount, 48.0f));
  EXPECT_EQ(all.read(), std::vector<float>(2 * kCount, 48.0f));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(NcclProcesses, SumTheirDevices) {
  const pid_t other = process([this] { sum_and_share(id_, 1); });
  sum_and_share(id_, 0);
  EXPECT_EQ(exit_of(other), 0);
  EXPECT_EQ(files_of_worlds(), 0);
}

// In a group both ends of a pair may send first, and parts arrive in the order in which they were sent.
void exchange(const ncclUniqueId& id, int rank) {
  ncclComm_t comm = begin(id, 2, rank, rank);
  ASSERT_EQ(settled(comm), ncclSuccess);
  Stream stream;
  Array<float> own(std::vector<float>(kCount, 1.0f + static_cast<float>(rank))), first(kCount), second(kCount);
  for (int i = 0; i < 3; ++i) {
    ncclGroupStart();
    ncclSend(own.data, kCount, ncclFloat, 1 - rank, comm, stream);
    ncclSend(own.data, kCount / 2, ncclFloat, 1 - rank, comm, stream);
    ncclRecv(first.data, kCount, ncclFloat, 1 - rank, comm, stream);
    ncclRecv(second.data, kCount / 2, ncclFloat, 1 - rank, comm, stream);
    ncclGroupEnd();
    ncclAllReduce(first.data, own.data, kCount, ncclFloat, ncclSum, comm, stream);
  }
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  // The sums are 3, 6 and 12; the last received values are those before the last sum.
  EXPECT_EQ(own.read(), std::vector<float>(kCount, 12.0f));
  EXPECT_EQ(first.read(), std::vector<float>(kCount, 6.0f));
  EXPECT_EQ(second.read()[kCount / 2 - 1], 6.0f);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(NcclProcesses, SendEachOther) {
  const pid_t other = process([this] { exchange(id_, 1); });
  exchange(id_, 0);
  EXPECT_EQ(exit_of(other), 0);
}

TEST_F(NcclProcesses, ASendWaitsForItsReceive) {
  const pid_t other = process([this] {
    ncclComm_t comm = begin(id_, 2, 1, 1);
    settled(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Stream stream;
    Array<float> x(kCount);
    ncclRecv(x.data, kCount, ncclFloat, 0, comm, stream);
    cudaStreamSynchronize(stream);
    EXPECT_EQ(x.read()[0], 1.0f);
  });
  ncclComm_t comm = begin(id_, 2, 0, 0);
  ASSERT_EQ(settled(comm), ncclSuccess);
  Stream stream;
  Array<float> x(std::vector<float>(kCount, 1.0f));
  const auto begun = std::chrono::steady_clock::now();
  ncclSend(x.data, kCount, ncclFloat, 1, comm, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(200));
  EXPECT_EQ(exit_of(other), 0);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(NcclProcesses, TransfersThatDifferAreAnErrorOfBoth) {
  const auto differ = [this](int rank) {
    ncclComm_t comm = begin(id_, 2, rank, rank);
    ASSERT_EQ(settled(comm), ncclSuccess);
    Stream stream;
    Array<float> x(2);
    if (rank == 0)
      ncclSend(x.data, 1, ncclFloat, 1, comm, stream);
    else
      ncclRecv(x.data, 2, ncclFloat, 0, comm, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_NE(settled(comm), ncclSuccess);
    ncclCommAbort(comm);
  };
  const pid_t other = process([&] { differ(1); });
  differ(0);
  EXPECT_EQ(exit_of(other), 0);
}

TEST_F(NcclProcesses, GoOnWhileAHostThreadIsElsewhere) {
  const pid_t other = process([this] {
    ncclComm_t comm = begin(id_, 2, 1, 1);
    settled(comm);
    Stream stream;
    Array<float> x(std::vector<float>(kCount, 2.0f));
    ncclAllReduce(x.data, x.data, kCount, ncclFloat, ncclSum, comm, stream);
    // Doesn't wait for its device: a GPU does its part all the same.
    std::this_thread::sleep_for(std::chrono::seconds(60));
  });
  ncclComm_t comm = begin(id_, 2, 0, 0);
  ASSERT_EQ(settled(comm), ncclSuccess);
  {
    Stream stream;
    Array<float> x(std::vector<float>(kCount, 1.0f));
    ncclAllReduce(x.data, x.data, kCount, ncclFloat, ncclSum, comm, stream);
    cudaStreamSynchronize(stream);
    EXPECT_EQ(x.read()[0], 3.0f);
  }
  ::kill(other, SIGKILL);
  exit_of(other);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST_F(NcclProcesses, AKilledOneIsWaitedForUntilTheAbort) {
  const pid_t other = process([this] {
    settled(begin(id_, 2, 1, 1));
    ::kill(::getpid(), SIGKILL);
  });
  ncclComm_t comm = begin(id_, 2, 0, 0);
  ASSERT_EQ(settled(comm), ncclSuccess);
  EXPECT_EQ(exit_of(other), 128 + SIGKILL);
  EXPECT_EQ(files_of_worlds(), 0);
  Stream stream;
  Array<float> x(kCount);
  ncclAllReduce(x.data, x.data, kCount, ncclFloat, ncclSum, comm, stream);
  std::thread aborting([comm] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(150));
  aborting.join();
}

TEST_F(NcclProcesses, FilesOfTheKilledGoWithTheNextId) {
  const pid_t other = process([] {
    ncclUniqueId own{};
    ncclGetUniqueId(&own);
    // Only one of three ranks enters, in another process.
    exit_of(process([own] { begin(own, 3, 1, 1); }));
    ::kill(::getpid(), SIGKILL);
  });
  exit_of(other);
  const auto is_left = [other] {
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
      if (entry.path().filename().string().starts_with("dptrain-cuda-sim-nccl-" + std::to_string(other) + '-'))
        return true;
    return false;
  };
  EXPECT_TRUE(is_left());
  ncclUniqueId next{};
  ncclGetUniqueId(&next);
  EXPECT_FALSE(is_left());
}

TEST_F(NcclProcesses, OneDeviceTwiceIsRefused) {
  const pid_t other = process([this] { EXPECT_EQ(settled(begin(id_, 2, 1, 0)), ncclInvalidUsage); });
  EXPECT_EQ(settled(begin(id_, 2, 0, 0)), ncclInvalidUsage);
  EXPECT_EQ(exit_of(other), 0);
}

TEST_F(NcclProcesses, CallsThatDifferAreAnErrorOfBoth) {
  const auto differ = [this](int rank) {
    ncclComm_t comm = begin(id_, 2, rank, rank);
    ASSERT_EQ(settled(comm), ncclSuccess);
    Stream stream;
    Array<float> x(2);
    ncclAllReduce(x.data, x.data, rank == 0 ? 1 : 2, ncclFloat, ncclSum, comm, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ncclResult_t error = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    EXPECT_NE(error, ncclSuccess);
    ncclCommAbort(comm);
  };
  const pid_t other = process([&] { differ(1); });
  differ(0);
  EXPECT_EQ(exit_of(other), 0);
}

}  // namespace
