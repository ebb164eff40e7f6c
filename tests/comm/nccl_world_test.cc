// NCCL's communicators over processes; threads of this process play these, with one GPU each.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/communicators.h"
#include "comm/nccl_communicators.h"
#include "comm/process_pair.h"
#include "device/cuda_probe.h"
#include "device/with_cuda.h"
#include "support/memory_wires.h"
#include "tensor/tensor.h"

namespace dptrain {
namespace {

CommBuffer buffer_of(const Tensor& tensor) {
  return {.data = tensor.raw(), .elements = tensor.elements(), .dtype = tensor.dtype()};
}

class NcclWorldTest : public ::testing::Test {
 protected:
  struct Rank {
    int rank;
    Device& device;
    Communicator& communicator;
    ProcessActivity& activity;
    std::atomic<bool>& sign;  ///< shared by all ranks, false at first
  };
  using Work = std::function<void(const Rank&)>;

  void SetUp() override {
    if (kWithNccl && ProcessPair::instance() != nullptr) return;
    if (!kWithNccl || cuda_devices().size() < 2)
      GTEST_SKIP() << "needs NCCL and two GPUs, there are " << cuda_devices().size() << ": " << cuda_absence();
  }

  /// Runs one rank per process, on `gpus[rank]`; returns how each ended. All ranks must find NCCL, or not, as
  /// `expects_nccl` says.
  struct Options {
    double timeout_s = 60;
    bool deterministic = false;
    std::vector<RankPair> messages = {};
  };
  /// A deadline short enough to wait for. Two processes that share a GPU need up to ten seconds to form their
  /// communicators.
  static double soon_s() { return ProcessPair::instance() != nullptr ? 10 : 2; }

  static std::vector<ExitCode> run(const std::vector<int>& gpus, bool expects_nccl, const Work& work) {
    return run(gpus, expects_nccl, work, {});
  }
  static std::vector<ExitCode> run(const std::vector<int>& gpus, bool expects_nccl, const Work& work,
                                   const Options& options) {
    if (ProcessPair* const pair = ProcessPair::instance()) return run_own(*pair, work, options);
    std::atomic<bool> sign = false;
    const auto wires = MemoryWires::make(static_cast<int>(gpus.size()));
    std::vector<std::unique_ptr<ProcessExchange>> exchanges;
    for (const auto& wire : wires) exchanges.push_back(std::make_unique<ProcessExchange>(wire, kIdlePause));
    std::vector<ExitCode> codes(gpus.size(), ExitCode::ok);
    std::vector<std::thread> processes;
    for (size_t r = 0; r < gpus.size(); ++r)
      processes.emplace_back([&, r] {
        codes[r] = run_rank({static_cast<int>(r), gpus[r]}, *exchanges[r], expects_nccl, work, options, sign);
      });
    for (std::thread& process : processes) process.join();
    return codes;
  }

 private:
  /// Runs this process's rank; the other process of the pair has the other rank, on the same GPU.
  static std::vector<ExitCode> run_own(ProcessPair& pair, const Work& work, const Options& options) {
    std::vector<ExitCode> codes(2, ExitCode::ok);
    std::atomic<bool>& sign = pair.new_sign();
    ProcessExchange exchange(pair.new_wire(), kIdlePause);
    const ExitCode own = run_rank({pair.process(), 0}, exchange, /*expects_nccl=*/true, work, options, sign);
    codes[static_cast<size_t>(pair.process())] = own;
    codes[static_cast<size_t>(pair.other())] =
        static_cast<ExitCode>(std::stoi(pair.exchange(std::to_string(static_cast<int>(own)))));
    return codes;
  }

  struct Place {
    int rank;
    int gpu;
  };
  static ExitCode run_rank(const Place& place, ProcessExchange& exchange, bool expects_nccl, const Work& work,
                           const Options& options, std::atomic<bool>& sign) {
    try {
      const auto device = open_device({DeviceKind::cuda, place.gpu}, {.rank = place.rank});
      device->enter_thread();
      const RanksOfProcesses world{
          .exchange = &exchange, .processes = {0, 1}, .shape = WorldShape(std::vector<int>{1, 1})};
      const bool over_nccl = world_has_nccl({device.get()}, world, options.timeout_s);
      EXPECT_EQ(over_nccl, expects_nccl);
      const auto communicators = make_communicators({device.get()}, {.timeout_s = options.timeout_s,
                                                                     .deterministic = options.deterministic,
                                                                     .world = world,
                                                                     .world_over_nccl = over_nccl,
                                                                     .messages = options.messages});
      EXPECT_EQ(communicators.front()->can_be_recorded(DType::f32), expects_nccl);
      work({place.rank, *device, *communicators.front(), exchange.activity(), sign});
      return ExitCode::ok;
    } catch (const Error& error) {
      return error.code();
    }
  }
};

using Codes = std::vector<ExitCode>;

TEST_F(NcclWorldTest, EveryCallDoesWhatItSays) {
  const auto codes = run({0, 1}, true, [](const Rank& own) {
    const auto r = static_cast<float>(own.rank);
    const auto of_own = [&](const std::vector<float>& values) {
      const auto count = static_cast<int64_t>(values.size());
      return Tensor::from(own.device, {count}, values);
    };
    const Tensor x = of_own({1 + r, 2, 3}), y = of_own({r, 10 * r}), part = of_own({0}),
                 all = of_own({0, 0, 0, 0, 0, 0});
    own.communicator.all_reduce(buffer_of(x));
    EXPECT_EQ(x.values(), (std::vector<float>{3, 4, 6}));
    own.communicator.reduce(buffer_of(x), 1);
    EXPECT_EQ(x.values(), own.rank == 1 ? (std::vector<float>{6, 8, 12}) : (std::vector<float>{3, 4, 6}));
    own.communicator.broadcast(buffer_of(x), 1);
    EXPECT_EQ(x.values(), (std::vector<float>{6, 8, 12}));
    own.communicator.reduce_scatter(buffer_of(y), buffer_of(part));
    EXPECT_EQ(part.values(), (std::vector<float>{own.rank == 0 ? 1.f : 10.f}));
    own.communicator.all_gather(buffer_of(x), buffer_of(all));
    EXPECT_EQ(all.values(), (std::vector<float>{6, 8, 12, 6, 8, 12}));
    // This call goes through host memory.
    own.communicator.gather(buffer_of(y), buffer_of(all.window(0, {4}, Layout::plain)), 0);
    const std::vector<float> unchanged = {6, 8, 12, 6, 8, 12}, gathered = {0, 0, 1, 10, 8, 12};
    EXPECT_EQ(all.values(), own.rank == 0 ? gathered : unchanged);
    if (own.rank == 0)
      own.communicator.send(buffer_of(x), 1);
    else
      own.communicator.receive(buffer_of(x), 0);
    const Tensor half = Tensor::zeros(own.device, {3}, {.dtype = DType::bf16});
    own.communicator.all_reduce(buffer_of(half));
    own.communicator.barrier();
    const CommCounts counts = own.communicator.counts();
    EXPECT_EQ(counts.collectives, 7);
  });
  EXPECT_EQ(codes, (Codes{ExitCode::ok, ExitCode::ok}));
}

/// Both ranks send before they receive, and an empty message follows.
TEST_F(NcclWorldTest, MessagesOfPairsGoFromGpuToGpu) {
  const auto exchange = [](const Rank& own) {
    const int other = 1 - own.rank;
    const auto of = [&](int rank, int step) {
      return std::vector<float>(100'000, static_cast<float>(10 * step + rank));
    };
    for (int step = 0; step < 3; ++step) {
      const Tensor x = Tensor::from(own.device, {100'000}, of(own.rank, step));
      const Tensor y = Tensor::zeros(own.device, {100'000});
      const auto sending = own.communicator.start_send(buffer_of(x), other);
      const auto sending_nothing = own.communicator.start_send({}, other);
      own.communicator.receive(buffer_of(y), other);
      own.communicator.receive({}, other);
      sending->wait();
      sending_nothing->wait();
      x.fill_zero();
      EXPECT_EQ(y.values(), of(other, step));
    }
    EXPECT_EQ(own.communicator.ways().between_processes, "nccl");
    EXPECT_EQ(own.communicator.counts().bytes, 3 * 400'000);
    own.communicator.barrier();
  };
  EXPECT_EQ(run({0, 1}, true, exchange, {.messages = {{0, 1}, {1, 0}}}), (Codes{ExitCode::ok, ExitCode::ok}));
}

/// Giving memory back waits for all of the GPU's work. Both ranks have begun to receive messages that the other sends
/// only after that.
TEST_F(NcclWorldTest, WhoReceivesAheadMayWaitForItsGpu) {
  const auto give_memory_back = [](const Rank& own) {
    const int other = 1 - own.rank;
    const Tensor x = Tensor::from(own.device, {1000}, std::vector<float>(1000, static_cast<float>(own.rank)));
    const Tensor y = Tensor::zeros(own.device, {1000});
    const auto coming = own.communicator.start_receive(buffer_of(y), other);
    { const Tensor large = Tensor::zeros(own.device, {10'000'000}); }
    own.device.allocator().release_cached();
    const auto sending = own.communicator.start_send(buffer_of(x), other);
    coming->wait();
    sending->wait();
    EXPECT_EQ(y.values(), std::vector<float>(1000, static_cast<float>(other)));
    own.communicator.barrier();
  };
  EXPECT_EQ(run({0, 1}, true, give_memory_back, {.timeout_s = 10, .messages = {{0, 1}, {1, 0}}}),
            (Codes{ExitCode::ok, ExitCode::ok}));
}

TEST_F(NcclWorldTest, OtherMessagesGoThroughHostMemory) {
  const auto send_back = [](const Rank& own) {
    const Tensor x = Tensor::from(own.device, {2}, std::vector<float>{static_cast<float>(own.rank), 5});
    if (own.rank == 1)
      own.communicator.send(buffer_of(x), 0);
    else
      own.communicator.receive(buffer_of(x), 1);
    EXPECT_EQ(x.values(), (std::vector<float>{1, 5}));
    EXPECT_EQ(own.communicator.ways().between_processes, own.rank == 1 ? "mpi" : "nccl") << "by what it has sent";
    own.communicator.barrier();
  };
  EXPECT_EQ(run({0, 1}, true, send_back, {.messages = {{0, 1}}}), (Codes{ExitCode::ok, ExitCode::ok}));
}

TEST_F(NcclWorldTest, EndsOfAMessageThatDifferEndAll) {
  const auto differ = [](const Rank& own) {
    const Tensor x = Tensor::zeros(own.device, {2 + own.rank});
    if (own.rank == 0)
      own.communicator.send(buffer_of(x), 1);
    else
      own.communicator.receive(buffer_of(x), 0);
    own.communicator.barrier();
  };
  EXPECT_EQ(run({0, 1}, true, differ, {.messages = {{0, 1}}}),
            (Codes{ExitCode::ranks_disagree, ExitCode::ranks_disagree}));
}

TEST_F(NcclWorldTest, AMessageThatNobodySendsIsWaitedForUntilTheDeadline) {
  const auto begun = Clock::now();
  const auto wait_for_nothing = [](const Rank& own) {
    const Tensor x = Tensor::zeros(own.device, {1000});
    if (own.rank == 0) own.communicator.receive(buffer_of(x), 1);
    own.communicator.barrier();
  };
  EXPECT_EQ(run({0, 1}, true, wait_for_nothing, {.timeout_s = soon_s(), .messages = {{1, 0}}}),
            (Codes{ExitCode::peer_lost, ExitCode::peer_lost}));
  EXPECT_GE(seconds_since(begun), 0.95 * soon_s());
  EXPECT_LT(seconds_since(begun), 40);
}

TEST_F(NcclWorldTest, OneGpuTwiceGoesThroughHostMemory) {
  const auto codes = run({0, 0}, false, [](const Rank& own) {
    const Tensor x = Tensor::from(own.device, {1}, std::vector<float>{1});
    own.communicator.all_reduce(buffer_of(x));
    EXPECT_EQ(x.values(), (std::vector<float>{2}));
  });
  EXPECT_EQ(codes, (Codes{ExitCode::ok, ExitCode::ok}));
}

TEST_F(NcclWorldTest, RanksThatDifferEndAll) {
  for (const bool deterministic : {false, true}) {
    const auto codes = run({0, 1}, true,
                           [](const Rank& own) {
                             const Tensor x = Tensor::zeros(own.device, {2 + own.rank});
                             own.communicator.all_reduce(buffer_of(x));
                             own.communicator.barrier();
                           },
                           {.deterministic = deterministic});
    EXPECT_EQ(codes, (Codes{ExitCode::ranks_disagree, ExitCode::ranks_disagree})) << deterministic;
  }
}

/// Recorded work keeps the staging memory that it was recorded with, even if later calls need more.
TEST_F(NcclWorldTest, SumsInTheTreesOrderAreRecorded) {
  const auto codes =
      run({0, 1}, true,
          [](const Rank& own) {
            const Tensor x = Tensor::zeros(own.device, {1000}), large = Tensor::zeros(own.device, {100'000}),
                         half = Tensor::zeros(own.device, {1000}, {.dtype = DType::bf16});
            EXPECT_TRUE(own.communicator.can_be_recorded(DType::bf16));
            x.copy_from(Tensor::from(own.device, {1000}, std::vector<float>(1000, 1 + static_cast<float>(own.rank))));
            const auto sums = [&] {
              own.communicator.all_reduce(buffer_of(x));
              own.communicator.all_reduce(buffer_of(half));
            };
            sums();
            own.device.synchronize();
            own.communicator.barrier();
            const auto recorded = own.device.record(sums);
            own.communicator.barrier();
            own.communicator.all_reduce(buffer_of(large));
            for (int i = 0; i < 2; ++i) recorded->run();
            // 3, doubled by each replay.
            EXPECT_EQ(x.values(), std::vector<float>(1000, 12));
            own.communicator.barrier();
          },
          {.deterministic = true});
  EXPECT_EQ(codes, (Codes{ExitCode::ok, ExitCode::ok}));
}

/// The watch looks for a hung process among those at work. If one process hangs, the other processes' GPUs are in NCCL,
/// and nothing else runs.
TEST_F(NcclWorldTest, WhoWaitsForItsGpuInNcclWaitsForOthers) {
  std::atomic<bool> seen = false;
  const auto codes = run({0, 1}, true, [&seen](const Rank& own) {
    const Tensor x = Tensor::zeros(own.device, {1000});
    own.communicator.all_reduce(buffer_of(x));
    own.device.synchronize();
    const auto recorded = own.device.record([&] { own.communicator.all_reduce(buffer_of(x)); });
    own.communicator.barrier();
    const auto deadline = deadline_in(20);
    const auto until_seen = [&](const auto& sees) {
      while (!(own.sign = own.sign || sees()) && Clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    if (own.rank == 1) until_seen([] { return false; });
    const ActivePlace place(&own.activity.add("rank"));
    EXPECT_TRUE(own.activity.at_work().any);
    recorded->run();
    own.communicator.count_replay({});
    std::thread watch;
    if (own.rank == 0) watch = std::thread([&] { until_seen([&] { return !own.activity.at_work().any; }); });
    own.device.synchronize();
    if (watch.joinable()) watch.join();
    EXPECT_TRUE(own.activity.at_work().any);
    seen = own.sign.load();
  });
  EXPECT_TRUE(seen) << "rank 0's wait counts as work";
  EXPECT_EQ(codes, (Codes{ExitCode::ok, ExitCode::ok}));
}

/// A recorded step has no call in which a thread could wait: the host sees its end, or nothing.
TEST_F(NcclWorldTest, AGpuDoesNotWaitForAnotherBeyondTheDeadline) {
  const auto codes = run({0, 1}, true,
                         [](const Rank& own) {
                           const Tensor x = Tensor::zeros(own.device, {1000});
                           own.communicator.all_reduce(buffer_of(x));
                           own.device.synchronize();
                           const auto recorded = own.device.record([&] { own.communicator.all_reduce(buffer_of(x)); });
                           own.communicator.barrier();
                           if (own.rank == 1) {
                             const auto deadline = deadline_in(60);
                             while (!own.sign && Clock::now() < deadline)
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             return;
                           }
                           const auto begun = Clock::now();
                           recorded->run();
                           own.communicator.count_replay({});
                           own.device.synchronize();
                           // A waiting thread would have named its own call earlier.
                           EXPECT_GE(seconds_since(begun), 1.75 * soon_s());
                           EXPECT_LT(seconds_since(begun), 40);
                           own.sign = true;
                           own.communicator.barrier();
                         },
                         {.timeout_s = soon_s()});
  EXPECT_EQ(codes[0], ExitCode::peer_lost);
}

}  // namespace
}  // namespace dptrain
