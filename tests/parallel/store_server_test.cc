#include "parallel/store_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "parallel/comm_buffer.h"
#include "support/expect_error.h"

namespace dptrain::parallel {
namespace store_server_test {

using testing::expect_error;

/// An optimizer that fails in its first step.
class FailingOptimizer final : public optim::Optimizer {
 public:
  FailingOptimizer(const optim::FlatWeights& flat, std::function<void()> fail)
      : Optimizer(flat), fail_(std::move(fail)) {}
  void step_range(int64_t, const Tensor&, const optim::OptimizerStep&) override { fail_(); }
  std::vector<optim::OptimizerState> state() const override { return {}; }

 private:
  std::function<void()> fail_;
};

/// Makes a worker's step on a server whose update fails, and expects this error of the worker and of the server.
void expect_failure(const std::function<void()>& fail, ExitCode code, const std::string& sentence) {
  StoreLinks links = make_store_links(1, 60);
  StoreServerOptions options{.slices = {{.key = 0, .begin = 0, .end = 16, .server = 0}},
                             .widths = {{1}},
                             .optimizer = {.name = "failing", .make = [fail](const optim::FlatWeights& flat) {
                                             return std::make_unique<FailingOptimizer>(flat, fail);
                                           }}};
  StoreServer server(options, std::move(links.servers.front()));
  Communicator& worker = *links.to_servers.front();
  std::vector<float> gradients(16), weights(16);
  StoreCommand step{.kind = StoreCommand::Kind::step, .number = 1, .learning_rate = 0.1};
  worker.send(command_buffer(step), 1);
  // The server may have failed before the send checks whether it is done.
  expect_error(code, {sentence}, [&] {
    worker.send(buffer_of(gradients), 1);
    worker.receive(buffer_of(weights), 1);
  });
  expect_error(code, {sentence}, [&] { server.wait(); });
}

TEST(StoreServerTest, WhatEndsItsThreadEndsItsWorkersWithTheSameCodeAndWords) {
  expect_failure([] { throw std::bad_alloc(); }, ExitCode::device,
                 "server 0 of the key-value store: out of host memory; use a smaller batch or model");
  expect_failure([] { throw Error(ExitCode::diverged, "a weight is not finite"); }, ExitCode::diverged,
                 "server 0 of the key-value store: a weight is not finite");
  expect_failure([] { throw std::logic_error("no such slice"); }, ExitCode::bug,
                 "server 0 of the key-value store: no such slice");
}

/// Of two workers, the second takes no step.
TEST(StoreServerTest, WhoWaitsTooLongForAWorkerEndsAllAndNamesIt) {
  StoreLinks links = make_store_links(1, 60);
  auto second = make_thread_communicators(2, {.timeout_s = 60});
  links.servers.front().to_workers.push_back(std::move(second[1]));
  StoreServerOptions options{.slices = {{.key = 0, .begin = 0, .end = 16, .server = 0}},
                             .widths = {{1}, {1}},
                             .optimizer = {.name = "never asked",
                                           .make =
                                               [](const optim::FlatWeights& flat) {
                                                 return std::make_unique<FailingOptimizer>(
                                                     flat, [] { FAIL() << "half of a step is taken"; });
                                               }},
                             .timeout_s = 0.05};
  StoreServer server(options, std::move(links.servers.front()));
  Communicator& worker = *links.to_servers.front();
  std::vector<float> gradients(16), weights(16);
  StoreCommand step{.kind = StoreCommand::Kind::step, .number = 1, .learning_rate = 0.1};
  const std::initializer_list<std::string_view> sentence = {"server 0 of the key-value store", "0.05 s",
                                                            "gradients of worker 1;"};
  expect_error(ExitCode::peer_lost, sentence, [&] {
    worker.send(command_buffer(step), 1);
    worker.send(buffer_of(gradients), 1);
    worker.receive(buffer_of(weights), 1);
  });
  expect_error(ExitCode::peer_lost, sentence, [&] { server.wait(); });
  // The late worker gets the error, too.
  expect_error(ExitCode::peer_lost, sentence, [&] { second[0]->send(command_buffer(step), 1); });
}

/// For a server whose update hangs, the watch names the thread that makes the update, and not the thread that waits for
/// it.
TEST(StoreServerTest, AnUpdateThatHangsIsTheServersAndNotTheWorkers) {
  ProcessActivity activity;
  std::promise<void> go_on;
  StoreLinks links = make_store_links(1, 60);
  StoreServerOptions options{.slices = {{.key = 0, .begin = 0, .end = 16, .server = 0}},
                             .widths = {{1}},
                             .optimizer = {.name = "hanging",
                                           .make =
                                               [released = go_on.get_future().share()](const optim::FlatWeights& flat) {
                                                 return std::make_unique<FailingOptimizer>(
                                                     flat, [released] { released.wait(); });
                                               }},
                             .activity = &activity};
  StoreServer server(options, std::move(links.servers.front()));
  Communicator& worker = *links.to_servers.front();
  const auto is_at_work = [&activity] { return activity.services().front().is_at_work; };
  const auto wait_until = [](const std::function<bool()>& is_true) {
    for (int i = 0; i < 10'000 && !is_true(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is_true();
  };
  ASSERT_EQ(activity.services().size(), 1u);
  EXPECT_EQ(activity.services().front().name, "server 0");
  EXPECT_TRUE(wait_until([&] { return !is_at_work(); })) << "it waits for a command";

  std::vector<float> gradients(16), weights(16);
  StoreCommand step{.kind = StoreCommand::Kind::step, .number = 1, .learning_rate = 0.1};
  worker.send(command_buffer(step), 1);
  worker.send(buffer_of(gradients), 1);
  int64_t changes = -1;
  EXPECT_TRUE(wait_until([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return is_at_work() && std::exchange(changes, activity.services().front().changes) == changes;
  })) << "it is in the update, and makes no progress";
  EXPECT_FALSE(activity.at_work().any) << "nobody here trains";
  go_on.set_value();
  worker.receive(buffer_of(weights), 1);
  EXPECT_TRUE(wait_until([&] { return !is_at_work(); }));
  StoreCommand end{.kind = StoreCommand::Kind::end};
  worker.send(command_buffer(end), 1);
}

}  // namespace store_server_test
}  // namespace dptrain::parallel
