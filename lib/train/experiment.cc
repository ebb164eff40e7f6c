#include "train/experiment.h"

#include <fmt/format.h>

#include "base/host_name.h"
#include "parallel/process_store.h"

namespace dptrain::train {

bool Experiment::is_partitioned() const {
  return devices_of_processes.size() > 1 && dataset.order.by_process.value_or(strategy.by_process);
}

parallel::StoreServerOptions Experiment::store_server() const {
  parallel::ReplicaSpec replica;
  replica.optimizer = optimizer;
  replica.clip_norm = clip_norm;
  replica.precision = precision;
  return parallel::server_options(replica, WorldShape(devices_of_processes), !strategy.in_step, wait_timeout_s());
}

RankPlace Experiment::place(size_t rank) const {
  return job != nullptr ? job->places[rank] : RankPlace{.device = devices[rank].name(), .host = host_name()};
}

std::string Experiment::rank_name(int rank) const {
  const RankPlace at = place(static_cast<size_t>(rank));
  return fmt::format("rank {} ({}{})", rank, at.device, job != nullptr ? " on " + at.host : "");
}

std::vector<std::string> Experiment::device_names() const {
  std::vector<std::string> names;
  const size_t ranks = job != nullptr ? job->places.size() : devices.size();
  for (size_t rank = 0; rank < ranks; ++rank) names.push_back(place(rank).device);
  return names;
}

}  // namespace dptrain::train
