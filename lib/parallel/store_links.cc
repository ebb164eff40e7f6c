#include "parallel/store_links.h"

#include <algorithm>
#include <utility>

namespace dptrain::parallel {
namespace {

/// A server waits for the next command for as long as its workers compute. A worker that is lost the job tells of.
constexpr double kIdle_s = 7 * 24 * 3600;

/// A worker and a server that are threads of this process.
void link_threads(StoreLinks& links, ServerLinks& server) {
  auto ends = make_thread_communicators(2, {.timeout_s = kIdle_s});
  links.to_servers.push_back(std::move(ends[0]));
  server.to_workers.push_back(std::move(ends[1]));
}

}  // namespace

StoreLinks make_store_links(int servers, double timeout_s) {
  StoreLinks links;
  auto among = make_thread_communicators(servers, {.timeout_s = timeout_s});
  for (int s = 0; s < servers; ++s) {
    ServerLinks server{.server = s, .to_workers = {}, .among_servers = {}};
    link_threads(links, server);
    if (servers > 1) server.among_servers = std::move(among[static_cast<size_t>(s)]);
    links.servers.push_back(std::move(server));
  }
  return links;
}

StoreLinks make_store_links(ProcessExchange& exchange, const StoreRoles& roles, double timeout_s) {
  StoreLinks links;
  const int own = exchange.process();
  // This process's end; null where it has none. Groups are numbered alike in all processes.
  const auto join = [&](const std::vector<int>& processes, double wait_s) -> std::unique_ptr<Communicator> {
    if (std::ranges::find(processes, own) == processes.end()) {
      exchange.next_group();
      return nullptr;
    }
    const WorldShape shape(std::vector<int>(processes.size(), 1));
    return std::move(
        make_process_communicators({.exchange = &exchange, .processes = processes, .shape = shape}, wait_s).front());
  };
  for (size_t s = 0; s < roles.servers.size(); ++s) {
    const int holder = roles.servers[s];
    ServerLinks server{.server = static_cast<int>(s), .to_workers = {}, .among_servers = {}};
    for (const int worker : roles.workers) {
      if (worker == holder) {
        if (worker == own) link_threads(links, server);
        continue;
      }
      auto end = join({worker, holder}, holder == own ? kIdle_s : timeout_s);
      if (worker == own) links.to_servers.push_back(std::move(end));
      if (holder == own) server.to_workers.push_back(std::move(end));
    }
    if (holder == own) links.servers.push_back(std::move(server));
  }
  if (roles.servers.size() > 1) {
    auto among = join(roles.servers, timeout_s);
    if (!links.servers.empty()) links.servers.front().among_servers = std::move(among);
  }
  return links;
}

}  // namespace dptrain::parallel
