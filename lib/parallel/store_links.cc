#include "parallel/store_links.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "comm/call_communicator.h"

namespace dptrain::parallel {
namespace {

/// Servers and the scheduler wait for the next command for as long as the workers compute. Their answers to workers
/// have deadlines of their own. The job reports a process that is lost.
constexpr double kIdle_s = 7 * 24 * 3600;

using Ends = std::vector<std::unique_ptr<Communicator>>;

/// The two ends of a link between threads of one process: a worker, and a server or the scheduler.
Ends link_threads() { return make_thread_communicators(2, {.timeout_s = kIdle_s}); }

/// A worker's end of a link without another end.
class PlannedLink final : public CallCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void abort(const std::string&, ExitCode) override {}
  CommCounts counts() const override { return {.bytes = bytes_}; }

 private:
  class Over final : public CommWork {
   public:
    void wait() override {}
  };
  std::unique_ptr<CommWork> start(const CommCall& call) override {
    bytes_ += sent_bytes(call, rank(), size());
    return std::make_unique<Over>();
  }

  std::atomic<int64_t> bytes_ = 0;
};

/// The links of one process of a job. Link tags must differ only between the same two processes. Two processes have at
/// most one worker-to-server link each way and one link to the scheduler. Three groups of tags therefore suffice for
/// all links; one group per link could exceed what an MPI provides.
class JobLinks {
 public:
  explicit JobLinks(ProcessExchange& exchange)
      : exchange_(exchange),
        to_later_servers_(exchange.next_group()),
        to_earlier_servers_(exchange.next_group()),
        to_scheduler_(exchange.next_group()),
        among_servers_(exchange.next_group()) {}

  bool is_own(int process) const { return process == exchange_.process(); }

  /// The two ends of a link: the worker (rank 0), and its server or the scheduler (rank 1). An end is null if it is in
  /// another process.
  using LinkEnds = std::pair<std::unique_ptr<Communicator>, std::unique_ptr<Communicator>>;
  LinkEnds to_server(int worker, int server) {
    return link(worker, server, worker < server ? to_later_servers_ : to_earlier_servers_);
  }
  LinkEnds to_scheduler(int worker, int scheduler) { return link(worker, scheduler, to_scheduler_); }
  std::unique_ptr<Communicator> among_servers(const std::vector<int>& servers, double timeout_s) {
    return join(servers, among_servers_, timeout_s);
  }

 private:
  LinkEnds link(int worker, int serves, int group) {
    if (worker == serves) {
      if (!is_own(worker)) return {};
      Ends ends = link_threads();
      return {std::move(ends[0]), std::move(ends[1])};
    }
    auto end = join({worker, serves}, group, kIdle_s);
    if (is_own(worker)) return {std::move(end), nullptr};
    return {nullptr, std::move(end)};
  }

  /// This process's end of a group; null if the process isn't a member.
  std::unique_ptr<Communicator> join(const std::vector<int>& processes, int group, double timeout_s) {
    if (std::ranges::find(processes, exchange_.process()) == processes.end()) return nullptr;
    const WorldShape shape(std::vector<int>(processes.size(), 1));
    return std::move(make_process_communicators(
                         {.exchange = &exchange_, .processes = processes, .shape = shape, .group = group}, timeout_s)
                         .front());
  }

  ProcessExchange& exchange_;
  // In the order in which all processes take the group numbers.
  const int to_later_servers_, to_earlier_servers_, to_scheduler_, among_servers_;
};

}  // namespace

bool StoreRoles::is_worker(int process) const { return std::ranges::find(workers, process) != workers.end(); }

StoreRoles store_roles(int processes, int servers) {
  const auto run = [](int begin, int end) {
    std::vector<int> numbers(static_cast<size_t>(end - begin));
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
  };
  if (servers == 0) return {.workers = run(0, processes), .servers = run(0, processes), .scheduler = 0};
  const int scheduler = processes - servers - 1;
  return {.workers = run(0, scheduler), .servers = run(scheduler + 1, processes), .scheduler = scheduler};
}

StoreLinks make_store_links(int servers, double timeout_s) {
  StoreLinks links;
  auto among = make_thread_communicators(servers, {.timeout_s = timeout_s});
  for (int s = 0; s < servers; ++s) {
    Ends ends = link_threads();
    ServerLinks server{.server = s, .to_workers = {}, .among_servers = {}};
    links.to_servers.push_back(std::move(ends[0]));
    server.to_workers.push_back(std::move(ends[1]));
    if (servers > 1) server.among_servers = std::move(among[static_cast<size_t>(s)]);
    links.servers.push_back(std::move(server));
  }
  Ends ends = link_threads();
  links.to_scheduler = std::move(ends[0]);
  links.to_workers.push_back(std::move(ends[1]));
  return links;
}

StoreLinks make_planned_store_links(int servers) {
  StoreLinks links;
  for (int s = 0; s < servers; ++s) links.to_servers.push_back(std::make_unique<PlannedLink>());
  links.to_scheduler = std::make_unique<PlannedLink>();
  return links;
}

StoreLinks make_store_links(ProcessExchange& exchange, const StoreRoles& roles, double timeout_s) {
  JobLinks job(exchange);
  StoreLinks links;
  for (size_t s = 0; s < roles.servers.size(); ++s) {
    ServerLinks server{.server = static_cast<int>(s), .to_workers = {}, .among_servers = {}};
    for (const int worker : roles.workers) {
      auto [to_server, to_worker] = job.to_server(worker, roles.servers[s]);
      if (to_server) links.to_servers.push_back(std::move(to_server));
      if (to_worker) server.to_workers.push_back(std::move(to_worker));
    }
    if (job.is_own(roles.servers[s])) links.servers.push_back(std::move(server));
  }
  for (const int worker : roles.workers) {
    auto [to_scheduler, to_worker] = job.to_scheduler(worker, roles.scheduler);
    if (to_scheduler) links.to_scheduler = std::move(to_scheduler);
    if (to_worker) links.to_workers.push_back(std::move(to_worker));
  }
  if (roles.servers.size() > 1) {
    auto among = job.among_servers(roles.servers, timeout_s);
    if (!links.servers.empty()) links.servers.front().among_servers = std::move(among);
  }
  return links;
}

}  // namespace dptrain::parallel
