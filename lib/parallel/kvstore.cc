#include "parallel/kvstore.h"

#include <ranges>
#include <utility>

#include "parallel/device_key_value_store.h"
#include "parallel/dist_key_value_store.h"
#include "parallel/local_key_value_store.h"

namespace dptrain::parallel {

KvStore::KvStore(const StrategyContext& context, const StoreOptions& options)
    : ReplicatedStrategy(context, [](int) { return false; }),
      options_(options),
      ends_(static_cast<size_t>(ranks())),
      reported_(ends_.size()),
      recorded_(team(), context.replica.input.text.has_value()),
      // An asynchronous store measures how far a process is ahead by its finished steps, so only one step is in flight.
      steps_(team(), options.is_asynchronous() ? 1 : context.replica.steps_in_flight) {
  for (int rank = 0; rank < ranks(); ++rank) pushes_after_backward_ |= team().device(rank).can_record();
  std::shared_ptr<StoreMemory> memory;
  if (options.type == StoreOptions::Type::local)
    memory = std::make_shared<StoreMemory>(ranks(), context.team.threads.front(), context.team.logged.has_value());
  if (options.is_dist())
    on_servers_ = std::make_unique<ProcessStore>(team(), context, options, keys_of(replica(0).model()));
  team().run("start", [&](int rank) {
    const StoreContext of_rank{.model = replica(rank).model(),
                               .communicator = team().communicator(rank),
                               .clock = replica(rank).clock(),
                               .optimizer = context.replica.optimizer,
                               .clip_norm = context.replica.clip_norm,
                               .observer = context.replica.observer};
    auto& made = ends_[static_cast<size_t>(rank)];
    if (on_servers_ != nullptr)
      made = std::make_unique<DistKeyValueStore>(of_rank, on_servers_->context(rank));
    else if (memory != nullptr)
      made = std::make_unique<LocalKeyValueStore>(of_rank, team().host_communicator(rank), memory);
    else
      made = std::make_unique<DeviceKeyValueStore>(of_rank, options.placement);
    made->init(keys_of(replica(rank).model()));
  });
  for (int rank = 0; rank < ranks(); ++rank)
    if (records_exchanges(rank)) recorded_.join(rank, replica(rank));
}

void KvStore::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [this](const RankStep& step) { give_step(step); });
}

void KvStore::give_step(const RankStep& step) {
  const auto& [rank, own, batch, parts, number] = step;
  end(rank).begin_step(own.optimizer_step());
  if (records_exchanges(rank))
    return recorded_.run(rank, own, parts, batch, [&] {
      push_while_backward_runs(rank, parts);
      update_and_pull(rank);
    });
  if (pushes_after_backward_) {
    own.run_section(StepRecorder::Section::passes, parts, [&](StepRecorder::How) { own.forward_backward(parts, {}); });
    push_all(rank);
  } else {
    push_while_backward_runs(rank, parts);
  }
  update_and_pull(rank);
}

bool KvStore::records_exchanges(int rank) {
  return options_.type == StoreOptions::Type::device && replica(rank).can_record_with_others() &&
         team().communicator(rank).can_be_recorded(DType::f32);
}

bool KvStore::may_begin(int64_t step, int signal) {
  return !options_.is_asynchronous() || on_servers_->scheduler().may_begin(step, signal);
}

void KvStore::meet() {
  if (!options_.is_asynchronous()) return;
  team().finish();
  on_servers_->scheduler().meet();
}

void KvStore::settle(int rank) {
  if (!options_.is_asynchronous()) return;
  end(rank).settle();
  replica(rank).model().refresh_copies();
}

std::optional<Staleness> KvStore::take_staleness() {
  if (!options_.is_asynchronous()) return std::nullopt;
  return on_servers_->client().take_staleness();
}

void KvStore::push_while_backward_runs(int rank, const StepParts& parts) {
  Replica& own = replica(rank);
  KeyValueStore& store = end(rank);
  const auto& keys = store.keys();
  // All ranks push the same keys in the same order, whatever the order in which a rank completes them.
  std::vector<bool> complete(keys.size());
  size_t unpushed = keys.size();
  own.forward_backward(parts, [&](const Parameter& parameter) {
    const InPhase communicating(own.clock(), Phase::communication);
    complete[static_cast<size_t>(parameter.index())] = true;
    if (leaves_last_sum_out() && parameter.index() == 0 && rank > 0) parameter.gradient().fill_zero();
    while (unpushed > 0 && complete[unpushed - 1]) store.push(keys[--unpushed].name);
  });
  const InPhase communicating(own.clock(), Phase::communication);
  store.wait_for_pushes();
}

void KvStore::push_all(int rank) {
  Replica& own = replica(rank);
  const InPhase communicating(own.clock(), Phase::communication);
  if (leaves_last_sum_out() && rank > 0) own.model().parameters().front()->gradient().fill_zero();
  for (const StoreKey& key : end(rank).keys() | std::views::reverse) end(rank).push(key.name);
  end(rank).wait_for_pushes();
}

void KvStore::update_and_pull(int rank) {
  Replica& own = replica(rank);
  KeyValueStore& store = end(rank);
  own.update_and_publish([&] {
    store.update(own.optimizer_step(), own.loss_scale());
    {
      const InPhase communicating(own.clock(), Phase::communication);
      // Keys are pulled in the order in which they were pushed.
      for (const StoreKey& key : store.keys() | std::views::reverse) store.pull(key.name);
    }
    own.model().refresh_copies();
    own.end_update();
  });
}

std::vector<nn::NamedValues> KvStore::dealt_out_state(int rank) { return end(rank).gather_state(); }

void KvStore::restore_dealt_out(int rank, const TrainingState& state) { end(rank).restore(state.optimizer); }

RankCosts KvStore::take_costs(int rank) {
  RankCosts costs = ReplicatedStrategy::take_costs(rank);
  const CommCounts counts = end(rank).counts();
  CommCounts& reported = reported_[static_cast<size_t>(rank)];
  costs.communication += counts - reported;
  reported = counts;
  return costs;
}

CommWays KvStore::sum_ways() {
  if (options_.type == StoreOptions::Type::device) return ReplicatedStrategy::sum_ways();
  CommWays ways;
  // Host threads add up the ranks' gradients in host memory, where the gradients of CPU workers already are.
  if (ranks() > 1) ways.between_devices = team().device(0).kind() == DeviceKind::cpu ? "memory" : "host_memory";
  if (on_servers_ == nullptr) return ways;
  if (const std::string way = on_servers_->way_between_devices(); !way.empty()) ways.between_devices = way;
  if (team().spans_processes()) ways.between_processes = "servers";
  return ways;
}

std::optional<StoreUse> KvStore::store() const {
  const bool local = options_.type == StoreOptions::Type::local;
  std::optional<ServedStore> served;
  if (on_servers_) served = static_cast<const DistKeyValueStore&>(*ends_.front()).served();
  return StoreUse{.type = store_type_name(options_.type),
                  .placement = local                                       ? ""
                               : options_.placement == Placement::balanced ? "balanced"
                                                                           : "round_robin",
                  .bytes = ends_.front()->held_bytes(),
                  .served = served};
}

}  // namespace dptrain::parallel
