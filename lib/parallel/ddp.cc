#include "parallel/ddp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "parallel/idle_devices.h"

namespace dptrain::parallel {
namespace {

/// Limit of the names in the error message.
constexpr size_t kNamedParameters = 4;

[[noreturn]] void refuse_unused(const std::vector<const Parameter*>& parameters) {
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters | std::views::take(kNamedParameters)) names.push_back(parameter->name());
  const size_t more = parameters.size() - names.size();
  throw Error(ExitCode::config,
              fmt::format("parameter{} {}{} got no gradient, expected one for every parameter; leave out the layer, or "
                          "write strategy: {{name: ddp, find_unused: true}}",
                          parameters.size() == 1 ? "" : "s", fmt::join(names, ", "),
                          more == 0 ? "" : fmt::format(" and {} more", more)));
}

ReplicaDuties duties_of(int world_rank, const StrategyContext& context, const Ddp::Options& options) {
  ReplicaDuties duties{.updates = !options.shard_optimizer,
                       .averages = world_rank == 0,
                       .measures_squares = options.measures_noise,
                       .measures_sums = world_rank == 0};
  // Sharded and compressed gradients are needed in one piece, and so are gradients summed between recorded sections.
  const bool by_buckets =
      !options.shard_optimizer && options.compress.method == CompressionOptions::Method::none &&
      std::ranges::all_of(context.team.devices, [](const DeviceId& id) { return id.kind == DeviceKind::cpu; });
  if (by_buckets) duties.gradients_held_by = options.buckets;
  return duties;
}

}  // namespace

Ddp::Ddp(const StrategyContext& context, const Options& options)
    : ReplicatedStrategy(
          context,
          [&](int world_rank) { return ReplicaAssignment{.duties = duties_of(world_rank, context, options)}; }),
      find_unused_(options.find_unused),
      recorded_(team(), context.replica.input.text.has_value()),
      steps_(team(), context.replica.steps_in_flight) {
  has_summed_.resize(static_cast<size_t>(ranks()));
  for (int rank = 0; rank < ranks(); ++rank) sums_between_parts_ |= team().device(rank).can_record();
  BucketOptions buckets = options.buckets;
  buckets.leave_out_last = leaves_last_sum_out();
  DPTRAIN_CHECK(!buckets.defer_updates || !(sums_between_parts_ || options.shard_optimizer || context.shards > 0 ||
                                            context.replica.clip_norm || context.replica.optimizer.measures ||
                                            context.replica.precision == Precision::fp16),
                "updates are deferred that can't be");
  std::vector<OwnedRange> owners;
  if (options.shard_optimizer) owners = equal_ranges(replica(0).model().weights().elements(), world_size());
  if (options.compress.method != CompressionOptions::Method::none && world_size() > 1) {
    start_compression(context, options.compress, buckets);
    if (buckets.defer_updates)
      defer_updates();
    else
      agree_on_recording();
    return;
  }
  for (int rank = 0; rank < ranks(); ++rank)
    buckets_.push_back(
        std::make_unique<GradientBuckets>(replica(rank).model(), team().communicator(rank), buckets, owners));
  if (buckets.defer_updates) {
    defer_updates();
    return;
  }
  agree_on_recording();
  if (!options.shard_optimizer) return;
  updates_.resize(buckets_.size());
  team().run("start", [&](int rank) {
    updates_[static_cast<size_t>(rank)] = std::make_unique<OwnedUpdates>(
        replica(rank).model(), team().communicator(rank), replica(rank).clock(),
        OwnedUpdates::Options{.ranges = owners,
                              .optimizer = context.replica.optimizer,
                              .clip_norm = context.replica.clip_norm,
                              .observer = context.replica.observer,
                              .measure = replica(rank).measure_of(StepExchange::Squares::summed)});
  });
}

void Ddp::agree_on_recording() {
  for (int rank = 0; rank < ranks(); ++rank)
    if (records_sums(rank)) recorded_.join(rank, replica(rank));
}

void Ddp::defer_updates() {
  for (int rank = 0; rank < ranks(); ++rank) {
    deferred_.push_back(std::make_unique<DeferredUpdate>(replica(rank), *buckets_[static_cast<size_t>(rank)]));
    replica(rank).defer_updates_by(*deferred_.back());
  }
}

void Ddp::start_compression(const StrategyContext& context, const CompressionOptions& compress,
                            const BucketOptions& buckets) {
  buckets_.resize(static_cast<size_t>(ranks()));
  compressions_.resize(buckets_.size());
  team().run("start", [&](int rank) {
    auto& compression = compressions_[static_cast<size_t>(rank)];
    compression =
        std::make_unique<GradientCompression>(GradientCompression::Context{.model = replica(rank).model(),
                                                                           .communicator = team().communicator(rank),
                                                                           .loss_factor = replica(rank).loss_factor(),
                                                                           .seed = context.replica.initialization.seed},
                                              compress);
    buckets_[static_cast<size_t>(rank)] = std::make_unique<GradientBuckets>(
        replica(rank).model(), buckets,
        [&](const Bucket& bucket, int priority) { return compression->sum_of(bucket, priority); });
  });
}

void Ddp::train_step(std::shared_ptr<const Batch> batch, const StepNumbers& numbers) {
  make_step(steps_, std::move(batch), numbers, [this](const RankStep& step) { give_step(step); });
}

void Ddp::give_step(const RankStep& step) {
  const auto& [rank, own, batch, parts, number] = step;
  if (!deferred_.empty()) {
    step_with_deferred_update(rank, parts);
  } else if (records_sums(rank)) {
    recorded_.run(rank, own, parts, batch, [&] {
      reduce_in_buckets(rank, parts);
      update(rank);
    });
  } else if (!compressions_.empty() || !updates_.empty()) {
    reduce_unrecorded(rank, parts);
    update(rank);
  } else if (sums_between_parts_) {
    // GPUs record their work, so ranks sum between two recorded sections.
    own.run_section(StepRecorder::Section::passes, parts, [&](StepRecorder::How) { compute(rank, parts, {}); });
    {
      const InPhase communicating(own.clock(), Phase::communication);
      team().communicator(rank).all_reduce(comm_buffer(own.model().gradients()));
    }
    own.run_section(StepRecorder::Section::end, parts, [&](StepRecorder::How) { update(rank); });
  } else {
    reduce_in_buckets(rank, parts);
    update(rank);
  }
}

void Ddp::compute(int rank, const StepParts& parts, const GradientReadyHook& ready) {
  replica(rank).forward_backward(parts, ready, find_unused_ ? Replica::UnusedHook() : refuse_unused);
}

void Ddp::step_with_deferred_update(int rank, const StepParts& parts) {
  Replica& own = replica(rank);
  start_in_buckets(rank, parts);
  {
    const InPhase communicating(own.clock(), Phase::communication);
    buckets_[static_cast<size_t>(rank)]->start_all();
  }
  deferred_[static_cast<size_t>(rank)]->begin();
  own.exchange().publish();
}

void Ddp::finish_updates(int rank) {
  if (!deferred_.empty()) deferred_[static_cast<size_t>(rank)]->finish();
}

void Ddp::update(int rank) {
  Replica& own = replica(rank);
  own.update_and_publish([&] {
    if (updates_.empty()) return own.update();
    OwnedUpdates& updates = *updates_[static_cast<size_t>(rank)];
    updates.update(own.optimizer_step(), own.loss_scale());
    updates.share_all();
    own.model().refresh_copies();
    own.end_update();
  });
}

bool Ddp::records_sums(int rank) {
  if (compressions_.empty()) return team().communicator(rank).can_be_recorded(DType::f32);
  return compressions_[static_cast<size_t>(rank)]->can_be_recorded();
}

void Ddp::reduce_unrecorded(int rank, const StepParts& parts) {
  if (!sums_between_parts_) return reduce_in_buckets(rank, parts);
  Replica& own = replica(rank);
  own.run_section(StepRecorder::Section::passes, parts, [&](StepRecorder::How) { compute(rank, parts, {}); });
  if (std::exchange(has_summed_[static_cast<size_t>(rank)], true)) return reduce_all_buckets(rank);
  wait_until_idle(rank);
  buckets_[static_cast<size_t>(rank)]->finish_apart([&] { wait_until_idle(rank); });
}

void Ddp::wait_until_idle(int rank) { wait_until_all_idle(replica(rank).device(), team().communicator(rank)); }

void Ddp::reduce_all_buckets(int rank) {
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  buckets_[static_cast<size_t>(rank)]->reduce_all();
}

void Ddp::start_in_buckets(int rank, const StepParts& parts) {
  Replica& own = replica(rank);
  GradientBuckets& buckets = *buckets_[static_cast<size_t>(rank)];
  buckets.begin_step();
  compute(rank, parts, [&](const Parameter& parameter) {
    const InPhase communicating(own.clock(), Phase::communication);
    buckets.gradient_ready(parameter);
  });
}

void Ddp::reduce_in_buckets(int rank, const StepParts& parts) {
  start_in_buckets(rank, parts);
  const InPhase communicating(replica(rank).clock(), Phase::communication);
  buckets_[static_cast<size_t>(rank)]->finish();
}

std::vector<nn::NamedValues> Ddp::dealt_out_state(int rank) {
  if (updates_.empty()) return {};
  return updates_[static_cast<size_t>(rank)]->gather_state();
}

void Ddp::restore_dealt_out(int rank, const TrainingState& state) {
  if (!updates_.empty() && !state.optimizer.empty()) updates_[static_cast<size_t>(rank)]->load_state(state.optimizer);
  if (!compressions_.empty()) compressions_[static_cast<size_t>(rank)]->load_state(state.compression);
}

std::vector<nn::NamedValues> Ddp::compression_state(int rank) {
  if (compressions_.empty()) return {};
  return compressions_[static_cast<size_t>(rank)]->gather_state();
}

bool Ddp::has_comparable_weights(int rank) {
  return compressions_.empty() || compressions_[static_cast<size_t>(rank)]->is_alike_everywhere();
}

}  // namespace dptrain::parallel
