#include "parallel/process_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "parallel/thread_failure.h"

namespace dptrain::parallel {
namespace {

std::vector<int> ranks_of(const RankRun& run) {
  std::vector<int> ranks(static_cast<size_t>(run.size()));
  std::iota(ranks.begin(), ranks.end(), run.begin);
  return ranks;
}

/// The runs of ranks whose sums a worker pushes; its own ranks are numbered from 0.
std::vector<RankRun> pushed_runs(const WorldShape& world, int worker, bool is_asynchronous) {
  const RankRun own = world.ranks_of(worker);
  if (is_asynchronous) return {{0, own.size()}};
  std::vector<RankRun> runs = world.whole_subtrees(worker);
  for (RankRun& run : runs) run = {run.begin - own.begin, run.end - own.begin};
  return runs;
}

/// The shape of the processes that train, also for a planned run.
WorldShape workers_of(const RankTeam& team, const StrategyContext& context) {
  if (context.team.world) return context.team.world->shape;
  if (context.team.logged && context.team.logged->shape) return *context.team.logged->shape;
  return WorldShape({team.size()});
}

StoreLinks links_of(const StrategyContext& context, const StoreOptions& options, const WorldShape& workers) {
  if (context.store_links) return std::move(*context.store_links);
  const int servers = options.servers > 0 ? options.servers : workers.processes();
  if (context.team.logged) return make_planned_store_links(servers);
  return make_store_links(servers, context.team.timeout_s);
}

}  // namespace

StoreServerOptions server_options(const ReplicaSpec& replica, const WorldShape& world, bool is_asynchronous,
                                  double timeout_s) {
  StoreServerOptions options{.slices = {},
                             .widths = {},
                             .optimizer = replica.optimizer,
                             .clip_norm = replica.clip_norm,
                             .is_asynchronous = is_asynchronous,
                             .waits_for_apply = replica.precision == Precision::fp16,
                             .timeout_s = timeout_s};
  for (int worker = 0; worker < world.processes(); ++worker) {
    std::vector<int>& widths = options.widths.emplace_back();
    for (const RankRun& run : pushed_runs(world, worker, is_asynchronous)) widths.push_back(run.size());
  }
  return options;
}

ProcessStore::ProcessStore(RankTeam& team, const StrategyContext& context, const StoreOptions& options,
                           const std::vector<StoreKey>& keys) {
  const WorldShape world = workers_of(team, context);
  const int worker = context.team.world ? context.team.world->place() : 0;
  StoreLinks links = links_of(context, options, world);
  StoreServerOptions of_servers =
      server_options(context.replica, world, options.is_asynchronous(), context.team.timeout_s);
  if (context.team.world) of_servers.activity = &context.team.world->exchange->activity();
  of_servers.slices = slice_keys(keys, static_cast<int>(links.to_servers.size()), options.placement);

  const std::vector<RankRun> runs = pushed_runs(world, worker, options.is_asynchronous());
  process_ = team.form_group(ranks_of({0, team.size()}));
  subtrees_.resize(process_.size());
  for (int rank = 0; rank < team.size(); ++rank) logged_.push_back(team.logged_calls(rank));
  // CPU workers' memory is host memory anyway.
  const bool on_devices =
      options.type == StoreOptions::Type::dist_device_sync && team.device(0).kind() != DeviceKind::cpu;
  if (on_devices) group_subtrees(team, runs);

  to_servers_ = std::move(links.to_servers);
  for (size_t server = 0; server < to_servers_.size(); ++server)
    to_servers_[server]->show_on(team.exchange_timeline(0), fmt::format("server {}", server));
  to_scheduler_ = std::make_unique<SchedulerLink>(std::move(links.to_scheduler));
  try {
    hold_servers(links, of_servers, options);
    if (servers_.empty() && worker == 0) tell_slices(to_servers_, of_servers.slices);
    std::vector<Communicator*> to_servers;
    for (const auto& link : to_servers_) to_servers.push_back(link.get());
    client_ = std::make_shared<StoreClient>(StoreClientOptions{.keys = keys,
                                                               .slices = of_servers.slices,
                                                               .subtrees = runs,
                                                               .adds_ranks = !on_devices,
                                                               .ends_with_apply = of_servers.waits_for_apply},
                                            to_servers);
  } catch (const std::exception&) {
    // Servers that already exist end only when their links do, and the destructor waits for them.
    const Error failure = described("the key-value store", std::current_exception());
    for (const auto& link : to_servers_) link->abort(failure.what(), failure.code());
    to_scheduler_->abort(failure);
    throw;
  }
}

void ProcessStore::hold_servers(StoreLinks& links, const StoreServerOptions& options, const StoreOptions& store) {
  for (ServerLinks& server : links.servers)
    servers_.push_back(std::make_unique<StoreServer>(options, std::move(server)));
  if (!links.to_workers.empty())
    scheduler_ = std::make_unique<StoreScheduler>(std::move(links.to_workers), store.max_staleness, options.timeout_s,
                                                  options.activity);
}

void ProcessStore::group_subtrees(RankTeam& team, const std::vector<RankRun>& subtrees) {
  for (const RankRun& subtree : subtrees)
    std::ranges::copy(team.form_group(ranks_of(subtree)), subtrees_.begin() + subtree.begin);
}

std::string ProcessStore::way_between_devices() const {
  std::string way;
  for (const Communicator* subtree : subtrees_)
    if (subtree != nullptr && way.empty()) way = subtree->ways().between_devices;
  return way;
}

DistStoreContext ProcessStore::context(int rank) const {
  const auto at = static_cast<size_t>(rank);
  return {.client = client_, .process = *process_[at], .subtree = subtrees_[at], .logged = logged_[at]};
}

}  // namespace dptrain::parallel
