#include "parallel/rank_team.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "comm/exit_timer.h"
#include "comm/thread_communicator.h"
#include "ops/gpu_libraries.h"
#include "parallel/thread_failure.h"

namespace dptrain::parallel {
namespace {

/// A rank's name: its number if there are several ranks, its device, and what it was doing.
std::string name_of(const Device& device, int rank, int size, const std::string& what) {
  return size > 1 ? fmt::format("rank {} ({}), {}", rank, device.name(), what)
                  : fmt::format("{}, {}", device.name(), what);
}

}  // namespace

RankTeam::RankTeam(const Options& options)
    : communicator_options_{.timeout_s = options.timeout_s,
                            .deterministic = options.deterministic,
                            .links = options.links ? std::make_shared<SimulatedLinks>(*options.links, options.devices)
                                                   : nullptr,
                            .world = options.world},
      logged_(options.logged),
      on_hung_(options.on_hung) {
  const int size = static_cast<int>(options.devices.size());
  DPTRAIN_CHECK(size > 0 && options.threads.size() == options.devices.size(), "{} devices, {} thread counts", size,
                options.threads.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    devices_.push_back(open_device(options.devices[at], {.rank = rank,
                                                         .threads = options.threads[at],
                                                         .memory_limit_bytes = options.memory_limit_bytes,
                                                         .deterministic = options.deterministic,
                                                         .tf32 = options.tf32,
                                                         .records = options.records,
                                                         .counts_only = options.logged.has_value(),
                                                         .times_operators = options.times_operators}));
  }
  const auto on_gpu = [](const auto& device) { return device->kind() == DeviceKind::cuda; };
  if (!logged_ && std::ranges::any_of(devices_, on_gpu)) ops::require_gpu_libraries();
  std::vector<Device*> devices;
  for (const auto& device : devices_) devices.push_back(device.get());
  if (logged_) {
    make_logging_communicators(devices);
  } else {
    if (options.world && !options.links)
      communicator_options_.world_over_nccl = world_has_nccl(devices, *options.world, options.timeout_s);
    CommunicatorOptions world_options = communicator_options_;
    world_options.messages = options.messages;
    communicators_ = make_communicators(devices, world_options);
    host_communicators_ = options.world ? make_process_communicators(*options.world, options.timeout_s)
                                        : make_thread_communicators(size, {.timeout_s = options.timeout_s});
  }
  for (int rank = 0; options.has_timelines && rank < size; ++rank) {
    timelines_.push_back(std::make_unique<RankTimelines>(device(rank)));
    communicator(rank).show_on(exchange_timeline(rank));
    host_communicator(rank).show_on(exchange_timeline(rank));
  }
  if (options.world) exchange_ = options.world->exchange;
  if (exchange_ != nullptr)
    for (int rank = 0; rank < size; ++rank)
      activity_.push_back(&exchange_->activity().add(fmt::format("rank {}", first_rank() + rank)));
  threads_ = std::make_unique<WorkerThreads>(size);
  run("start", [this](int rank) { device(rank).enter_thread(); });
  exchange_kinds();
}

void RankTeam::exchange_kinds() {
  for (const auto& device : devices_) kinds_.push_back(device->kind());
  if (!spans_processes()) return;
  if (logged_) {
    // The kind of one rank stands for all.
    kinds_.assign(static_cast<size_t>(world_size()), device(0).kind());
    return;
  }
  std::vector<DeviceKind> of_world;
  run("exchanging the devices' kinds", [&](int rank) {
    std::vector<int32_t> own = {static_cast<int32_t>(device(rank).kind())}, all(static_cast<size_t>(world_size()));
    host_communicator(rank).all_gather(buffer_of(own), buffer_of(all));
    if (rank == 0)
      for (const int32_t kind : all) of_world.push_back(static_cast<DeviceKind>(kind));
  });
  kinds_ = std::move(of_world);
}

RanksOfProcesses RankTeam::processes_of(const std::vector<int>& ranks) const {
  const RanksOfProcesses& world = *communicator_options_.world;
  std::vector<int> processes, counts;
  for (const int rank : ranks) {
    const int process = world.processes[static_cast<size_t>(world.shape.process_of(rank))];
    if (processes.empty() || processes.back() != process) {
      processes.push_back(process);
      counts.push_back(0);
    }
    ++counts.back();
  }
  return {.exchange = world.exchange, .processes = processes, .shape = WorldShape(counts)};
}

void RankTeam::make_logging_communicators(const std::vector<Device*>& devices) {
  std::vector<int> log_numbers;
  for (const Device* device : devices) log_numbers.push_back(device->rank());
  communicators_ = make_meta_communicators(devices, *logged_, log_numbers);
  LoggedWorld over_host = *logged_;
  over_host.recorded.clear();
  over_host.by_tree.reset();
  over_host.over_host = true;
  // Between processes, only scores go over host memory, and they aren't part of a step.
  unread_calls_.resize(devices.size());
  if (spans_processes()) over_host.calls = &unread_calls_;
  host_communicators_ = make_meta_communicators(devices, over_host, log_numbers);
}

std::vector<Communicator*> RankTeam::form_group(const std::vector<int>& ranks) {
  CommunicatorOptions group_options = communicator_options_;
  group_options.link_ranks = ranks;
  group_options.world.reset();
  return add_group(ranks, group_options);
}

std::vector<Communicator*> RankTeam::form_world_group(const std::vector<int>& world_ranks) {
  DPTRAIN_CHECK(std::ranges::is_sorted(world_ranks), "a group of ranks out of order");
  const RankRun here{first_rank(), first_rank() + size()};
  std::vector<int> own;
  for (const int rank : world_ranks)
    if (here.contains(rank)) own.push_back(rank - here.begin);
  std::vector<Communicator*> of_own;
  if (logged_) {
    if (!own.empty()) of_own = add_logged_group(own, world_ranks);
  } else if (own.size() == world_ranks.size()) {
    of_own = form_group(own);
  } else if (const RanksOfProcesses processes = processes_of(world_ranks); processes.processes.size() > 1) {
    CommunicatorOptions group_options = communicator_options_;
    group_options.world = processes;
    // All processes must number their groups alike.
    if (own.empty())
      for (int group = 0; group < exchange_groups_of(group_options); ++group) exchange_->next_group();
    else
      of_own = add_group(own, group_options);
  }
  std::vector<Communicator*> members;
  auto next = of_own.begin();
  for (const int rank : world_ranks) members.push_back(here.contains(rank) ? *next++ : nullptr);
  return members;
}

std::vector<Communicator*> RankTeam::add_logged_group(const std::vector<int>& own,
                                                      const std::vector<int>& world_ranks) {
  std::vector<Device*> devices;
  for (const int rank : own) devices.push_back(&device(rank));
  LoggedWorld group = *logged_;
  group.ranks = static_cast<int>(world_ranks.size());
  group.group = static_cast<int>(groups_.size()) + 1;
  group.members = std::make_shared<const std::vector<int>>(world_ranks);
  return keep_group(own, make_meta_communicators(devices, group, own));
}

std::vector<Communicator*> RankTeam::add_group(const std::vector<int>& ranks, const CommunicatorOptions& options) {
  if (logged_) return add_logged_group(ranks, ranks);
  std::vector<Device*> devices;
  for (const int rank : ranks) devices.push_back(&device(rank));
  return keep_group(ranks, make_communicators(devices, options));
}

std::vector<Communicator*> RankTeam::keep_group(const std::vector<int>& ranks,
                                                std::vector<std::unique_ptr<Communicator>> communicators) {
  for (size_t i = 0; i < ranks.size() && !timelines_.empty(); ++i)
    communicators[i]->show_on(exchange_timeline(ranks[i]));
  groups_.push_back({.ranks = ranks, .communicators = std::move(communicators)});
  std::vector<Communicator*> members;
  for (const auto& communicator : groups_.back().communicators) members.push_back(communicator.get());
  return members;
}

CommCounts RankTeam::counts(int rank) const {
  CommCounts counts = communicators_[static_cast<size_t>(rank)]->counts();
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      if (group.ranks[i] == rank) counts += group.communicators[i]->counts();
    }
  }
  return counts;
}

int64_t RankTeam::give(const std::string& what, Work work) { return give_work(what, 0, std::move(work)); }

int64_t RankTeam::give_work(const std::string& what, int64_t step, Work work) {
  return threads_->give([this, what, step, work = std::move(work)](int rank) {
    if (root_cause()) return;
    const ActivePlace place(exchange_ != nullptr ? activity_[static_cast<size_t>(rank)] : nullptr, step);
    try {
      throw_job_failure();
      work(rank);
    } catch (...) {
      fail(rank, what, std::current_exception());
    }
  });
}

int64_t RankTeam::give_step(int64_t step, Work work) {
  const std::string what = fmt::format("step {}", step);
  if (timelines_.empty()) return give_work(what, step, std::move(work));
  return give_work(what, step, [this, step, shown = shown_, work = std::move(work)](int rank) {
    timelines_[static_cast<size_t>(rank)]->do_step(step, shown, [&] { work(rank); });
  });
}

std::vector<std::vector<TimelineRow>> RankTeam::take_timelines() {
  std::vector<std::vector<TimelineRow>> rows;
  for (const auto& timelines : timelines_) rows.push_back(timelines->take());
  return rows;
}

void RankTeam::wait(int64_t number) {
  // Computing has no deadline. Where ranks wait for each other, the communicator has one.
  if (!threads_->wait(number, [this] { return is_hung(); })) leave_hung();
  if (const std::exception_ptr cause = root_cause()) std::rethrow_exception(cause);
}

void RankTeam::finish() {
  if (!threads_->finish([this] { return is_hung(); })) leave_hung();
}

bool RankTeam::is_hung() {
  const std::lock_guard lock(mutex_);
  return root_cause_ && exchange_ == nullptr && seconds_since(failed_at_) > communicator_options_.timeout_s;
}

void RankTeam::leave_hung() {
  try {
    std::rethrow_exception(root_cause());
  } catch (const Error& error) {
    if (on_hung_) on_hung_(error);
    end_process(error.code(), error.what());
  }
}

std::exception_ptr RankTeam::root_cause() {
  const std::lock_guard lock(mutex_);
  return root_cause_;
}

void RankTeam::throw_job_failure() const {
  if (exchange_ != nullptr && exchange_->has_failed()) throw JobError(exchange_->settled_failure());
}

void RankTeam::fail(int rank, const std::string& what, std::exception_ptr failure) {
  const Error error = described(name_of(device(rank), first_rank() + rank, world_size(), what), failure);
  {
    const std::lock_guard lock(mutex_);
    // Later failures are consequences: the other ranks stop because this one failed.
    if (root_cause_) return;
    root_cause_ = std::make_exception_ptr(error);
    failed_at_ = Clock::now();
  }
  if (exchange_ != nullptr) exchange_->fail({.code = error.code(), .sentence = error.what()});
  communicator(rank).abort(error.what(), error.code());
  host_communicator(rank).abort(error.what(), error.code());
  for (const Group& group : groups_) group.communicators.front()->abort(error.what(), error.code());
}

}  // namespace dptrain::parallel
