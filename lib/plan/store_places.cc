#include "plan/store_places.h"

#include <algorithm>

#include "tensor/dtype.h"

namespace dptrain::plan {

int StorePlaces::hosts() const {
  int hosts = workers.processes();
  for (const int host : hosts_of_servers) hosts = std::max(hosts, host + 1);
  return hosts;
}

StorePlaces place_servers(const WorldShape& workers, int servers, int server_hosts) {
  StorePlaces places{.workers = workers, .hosts_of_servers = {}, .servers_are_workers = servers == 0};
  const int hosts = workers.processes(), all = servers > 0 ? servers : hosts;
  for (int s = 0; s < all; ++s) {
    int host = s;
    if (servers > 0) host = server_hosts > 0 ? hosts + s % server_hosts : (s + 1) % hosts;
    places.hosts_of_servers.push_back(host);
  }
  return places;
}

StoreTraffic traffic_of(const parallel::ServedStore& store, const StorePlaces& places) {
  StoreTraffic traffic;
  const int workers = places.workers.processes();
  int64_t most_sums = 0, all_sums = 0;
  for (int w = 0; w < workers; ++w) {
    most_sums = std::max(most_sums, places.sums_of(w));
    all_sums += places.sums_of(w);
  }
  // By host: the bytes of its servers, and the bytes over its link.
  std::vector<int64_t> held(static_cast<size_t>(places.hosts())), entering(held.size()), leaving(held.size());
  for (const parallel::StoreSlice& slice : store.slices) {
    const int64_t bytes = slice.elements() * dtype_bytes(DType::f32);
    held[static_cast<size_t>(places.hosts_of_servers[static_cast<size_t>(slice.server)])] += bytes;
    traffic.pushed += most_sums * bytes;
    traffic.pulled += bytes;
  }
  for (int h = 0; h < places.hosts(); ++h) {
    const auto at = static_cast<size_t>(h);
    const int64_t elsewhere = places.is_worker(h) ? traffic.pulled - held[at] : 0;
    const int64_t own_sums = places.is_worker(h) ? places.sums_of(h) : 0;
    entering[at] = (all_sums - own_sums) * held[at] + elsewhere;
    leaving[at] = own_sums * elsewhere + (workers - (places.is_worker(h) ? 1 : 0)) * held[at];
  }
  traffic.entering = *std::ranges::max_element(entering);
  traffic.leaving = *std::ranges::max_element(leaving);
  return traffic;
}

}  // namespace dptrain::plan
