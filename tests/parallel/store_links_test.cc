// The links between the processes of a key-value store; threads of one process play the processes.
#include "parallel/store_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "comm/process_exchange.h"
#include "support/memory_wires.h"

namespace dptrain::parallel {
namespace store_links_test {

/// A worker sends its server the text "worker, server", and expects the same text back. The scheduler counts as server
/// -1.
constexpr int kScheduler = -1;

std::vector<int32_t> told(size_t worker, int server) { return {static_cast<int32_t>(worker), server}; }

/// Sends and receives all messages of this process at once, so that a message would reach a wrong place if two messages
/// of a process had the same tag.
void talk(const StoreLinks& links, const StoreRoles& roles, int process) {
  struct Said {
    std::vector<int32_t> expected, heard = {-2, -2};
    std::vector<std::unique_ptr<CommWork>> works = {};
  };
  std::vector<std::unique_ptr<Said>> all;
  const auto say = [&all](Communicator& link, const std::vector<int32_t>& own) {
    Said& said = *all.emplace_back(std::make_unique<Said>(Said{.expected = own}));
    const int other = 1 - link.rank();
    said.works.push_back(link.start_send(buffer_of(said.expected), other));
    said.works.push_back(link.start_receive(buffer_of(said.heard), other));
  };
  const auto worker = static_cast<size_t>(std::ranges::find(roles.workers, process) - roles.workers.begin());
  for (size_t s = 0; s < links.to_servers.size(); ++s) say(*links.to_servers[s], told(worker, static_cast<int>(s)));
  if (links.to_scheduler) say(*links.to_scheduler, told(worker, kScheduler));
  for (const ServerLinks& server : links.servers)
    for (size_t w = 0; w < server.to_workers.size(); ++w) say(*server.to_workers[w], told(w, server.server));
  for (size_t w = 0; w < links.to_workers.size(); ++w) say(*links.to_workers[w], told(w, kScheduler));
  for (const auto& said : all) {
    for (const auto& work : said->works) work->wait();
    EXPECT_EQ(said->heard, said->expected) << "process " << process;
  }
  for (const ServerLinks& server : links.servers) {
    std::vector<int32_t> sum = {1};
    if (server.among_servers) server.among_servers->all_reduce(buffer_of(sum));
    EXPECT_EQ(sum[0], server.among_servers ? static_cast<int32_t>(roles.servers.size()) : 1);
  }
}

void expect_each_message_comes_to_its_link(int processes, int servers) {
  SCOPED_TRACE(servers);
  const StoreRoles roles = store_roles(processes, servers);
  std::vector<std::unique_ptr<ProcessExchange>> exchanges;
  for (const auto& wire : MemoryWires::make(processes))
    exchanges.push_back(std::make_unique<ProcessExchange>(wire, /*idle_pause_s=*/0.0005));
  std::vector<std::jthread> threads;
  for (const auto& exchange : exchanges)
    threads.emplace_back([&roles, &exchange = *exchange] {
      const StoreLinks links = make_store_links(exchange, roles, /*timeout_s=*/60);
      talk(links, roles, exchange.process());
    });
}

TEST(StoreLinks, EachMessageComesToItsLink) {
  expect_each_message_comes_to_its_link(/*processes=*/4, /*servers=*/0);
  expect_each_message_comes_to_its_link(/*processes=*/6, /*servers=*/2);
}

/// An MPI may have 2^23 tags; a group takes 2^14 of them.
TEST(StoreLinks, OfManyWorkersAndServersTakeTheNumbersOfFewGroups) {
  const StoreRoles roles = store_roles(/*processes=*/64 + 1 + 8, /*servers=*/8);
  const auto wires = MemoryWires::make(64 + 1 + 8);
  for (const size_t process : {0u, 63u, 64u, 65u, 72u}) {
    ProcessExchange exchange(wires[process]);
    const StoreLinks links = make_store_links(exchange, roles, /*timeout_s=*/60);
    EXPECT_EQ(exchange.next_group(), 4) << process;
  }
}

}  // namespace store_links_test
}  // namespace dptrain::parallel
