// Ranks that only log their calls count as many bytes as ranks that communicate.
#include "comm/meta_communicator.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/thread_communicator.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

constexpr int kRanks = 3;

/// Makes a call of every kind.
void call_all(Communicator& communicator) {
  std::vector<float> whole(6), part(2), small(2);
  std::vector<float> parts(static_cast<size_t>(communicator.rank()) + 1), gathered(6);
  communicator.all_reduce(buffer_of(whole));
  communicator.reduce(buffer_of(whole), 1);
  communicator.broadcast(buffer_of(whole), 2);
  communicator.reduce_scatter(buffer_of(whole), buffer_of(part));
  communicator.all_gather(buffer_of(part), buffer_of(whole));
  communicator.gather(buffer_of(parts), buffer_of(gathered), 0);
  communicator.scatter(buffer_of(gathered), buffer_of(parts), 0);
  communicator.barrier();
  if (communicator.rank() == 0) communicator.send(buffer_of(small), 1);
  if (communicator.rank() == 1) communicator.receive(buffer_of(small), 0);
}

/// Devices, logs and communicators of the ranks that this process has.
struct Logged {
  explicit Logged(int there, int ranks) : calls(static_cast<size_t>(there)) {
    std::vector<Device*> own;
    std::vector<int> numbers;
    for (int rank = 0; rank < there; ++rank) {
      devices.push_back(open_device({DeviceKind::cpu, rank}, {.rank = rank, .counts_only = true}));
      own.push_back(devices.back().get());
      numbers.push_back(rank);
    }
    communicators = make_meta_communicators(own, {.ranks = ranks, .calls = &calls}, numbers);
  }

  std::vector<CallLog> calls;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

/// Makes all calls on every rank, on separate threads: ranks that log also meet in barriers.
void call_all_of(const std::vector<std::unique_ptr<Communicator>>& communicators) {
  std::vector<std::jthread> ranks;
  for (const auto& communicator : communicators) ranks.emplace_back([&] { call_all(*communicator); });
}

TEST(MetaCommunicator, CountsAsThreadsDo) {
  const auto threads = make_thread_communicators(kRanks);
  call_all_of(threads);

  Logged logged(kRanks, kRanks);
  call_all_of(logged.communicators);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(logged.communicators[rank]->counts().bytes, threads[rank]->counts().bytes) << rank;
    EXPECT_EQ(logged.communicators[rank]->counts().collectives, threads[rank]->counts().collectives) << rank;
  }
  EXPECT_EQ(logged.calls[2].size(), 8u);
}

TEST(MetaCommunicator, WaitsForNobody) {
  Logged logged(1, 4096);
  std::vector<float> values(4096);
  logged.communicators[0]->all_reduce(buffer_of(values));
  EXPECT_EQ(logged.communicators[0]->size(), 4096);
  EXPECT_EQ(logged.calls[0][0].sent_bytes, 2 * 4095 * 4);
}

TEST(MetaCommunicator, TellsWhereACallStoodAmongTheOperators) {
  Logged logged(1, 2);
  std::vector<float> values(4);
  const auto work = logged.communicators[0]->start_all_reduce(buffer_of(values));
  logged.devices[0]->fill_zero(nullptr, 1);
  work->wait();
  EXPECT_EQ(logged.calls[0][0].started_after, 0u);
  EXPECT_EQ(logged.calls[0][0].awaited_after, 1u);
}

TEST(MetaCommunicator, RefusesWhatOthersRefuse) {
  Logged logged(1, 2);
  std::vector<float> values(3);
  testing::expect_error(ExitCode::bug, {"no rank 2"}, [&] { logged.communicators[0]->reduce(buffer_of(values), 2); });
}

}  // namespace
}  // namespace dptrain
