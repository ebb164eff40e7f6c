#include "parallel/store_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <ranges>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "comm/tree_sum.h"
#include "ops/clip.h"
#include "ops/square_sum.h"
#include "parallel/comm_buffer.h"
#include "parallel/thread_failure.h"

namespace dptrain::parallel {

namespace {

static_assert(std::is_trivially_copyable_v<StoreSlice>);

CommBuffer bytes_of(std::vector<StoreSlice>& slices) {
  return {
      .data = slices.data(), .elements = static_cast<int64_t>(slices.size() * sizeof(StoreSlice)), .dtype = DType::u8};
}

/// "server 1 of the key-value store"
std::string name_of(const ServerLinks& links) { return fmt::format("server {} of the key-value store", links.server); }

/// "worker 1", or "workers 1, 3": the workers that haven't come.
std::string missing_workers(const std::vector<bool>& has_come) {
  std::vector<size_t> missing;
  for (size_t w = 0; w < has_come.size(); ++w)
    if (!has_come[w]) missing.push_back(w);
  return fmt::format("worker{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

/// Whether this worker is the last to come. If so, clears `has_come` for the next meeting.
bool is_last_to_come(std::vector<bool>& has_come, size_t worker) {
  has_come[worker] = true;
  if (std::ranges::find(has_come, false) != has_come.end()) return false;
  has_come.assign(has_come.size(), false);
  return true;
}

}  // namespace

StoreServer::StoreServer(const StoreServerOptions& options, ServerLinks links)
    : options_(options),
      links_(std::move(links)),
      device_(open_device({DeviceKind::cpu, 0})),
      threads_(static_cast<int>(links_.to_workers.size())) {
  int64_t size = 0;
  optim::FlatWeights flat;
  for (size_t i = 0; i < options.slices.size(); ++i) {
    const StoreSlice& slice = options.slices[i];
    flat.parameters = std::max(flat.parameters, static_cast<int64_t>(slice.key) + 1);
    if (slice.server != links_.server) continue;
    own_.push_back(
        {.index = i, .begin = size, .size = slice.elements(), .has_come = std::vector<bool>(links_.to_workers.size())});
    size += slice.elements();
    flat.runs.push_back({.parameter = static_cast<int64_t>(slice.key),
                         .elements = slice.elements(),
                         .dimensions = slice.dimensions,
                         .factors = slice.factors});
  }
  const auto zeros = [&](MemoryPurpose purpose) { return Tensor::zeros(*device_, {size}, {.purpose = purpose}); };
  weights_ = zeros(MemoryPurpose::weights);
  gradients_ = zeros(MemoryPurpose::gradients);
  workers_factor_ = Tensor::from(*device_, {1}, std::vector<float>{static_cast<float>(links_.to_workers.size())},
                                 MemoryPurpose::workspace);
  flat.weights = weights_;
  flat.gradients = gradients_;
  optimizer_ = options.optimizer.make(flat);
  norms_ = {options.optimizer, *device_, flat.parameters};
  for (size_t w = 0; w < links_.to_workers.size(); ++w) {
    Worker worker{
        .number = w, .link = links_.to_workers[w].get(), .widths = options.widths[w], .sums = {}, .command = {}};
    if (options.activity != nullptr)
      worker.place = &options.activity->add_service(fmt::format("server {}", links_.server));
    for (size_t i = 0; i < worker.widths.size(); ++i) worker.sums.push_back(zeros(MemoryPurpose::gradients));
    workers_.push_back(std::move(worker));
  }
  applying_.resize(workers_.size());
  threads_.give([this](int worker) { serve(static_cast<size_t>(worker)); });
}

void StoreServer::wait() {
  threads_.finish();
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

void StoreServer::serve(size_t worker) noexcept {
  const ActivePlace place(workers_[worker].place);
  try {
    while (serve_command(workers_[worker])) continue;
  } catch (const std::exception&) {
    fail(described(name_of(links_), std::current_exception()));
  }
}

void StoreServer::fail(const Error& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  changed_.notify_all();
  for (const Worker& worker : workers_) worker.link->abort(failure.what(), failure.code());
  if (links_.among_servers) links_.among_servers->abort(failure.what(), failure.code());
}

bool StoreServer::serve_command(Worker& worker) {
  worker.link->receive(command_buffer(worker.command), 0);
  switch (worker.command.kind) {
    case StoreCommand::Kind::step: take_step(worker); return true;
    case StoreCommand::Kind::pull: send_weights(worker); return true;
    case StoreCommand::Kind::read:
      for (const optim::OptimizerState& state : optimizer_->state())
        for (const Own& slice : own_) worker.link->send(comm_buffer(window(state.values, slice)), 0);
      return true;
    case StoreCommand::Kind::write:
      receive_weights(worker);
      if (!worker.command.has_state) return true;
      for (const optim::OptimizerState& state : optimizer_->state())
        for (const Own& slice : own_) worker.link->receive(comm_buffer(window(state.values, slice)), 0);
      return true;
    case StoreCommand::Kind::tell: tell_staleness(worker); return true;
    case StoreCommand::Kind::apply:
    case StoreCommand::Kind::end: break;
  }
  return false;
}

void StoreServer::receive_weights(Worker& worker) {
  for (const Own& slice : own_) worker.link->receive(comm_buffer(window(weights_, slice)), 0);
}

void StoreServer::tell_staleness(Worker& worker) {
  Staleness told;
  {
    const std::lock_guard lock(mutex_);
    told = std::exchange(staleness_, {});
  }
  std::vector<int64_t> size = {static_cast<int64_t>(told.pushes.size())};
  worker.link->send(buffer_of(size), 0);
  if (!told.pushes.empty()) worker.link->send(buffer_of(told.pushes), 0);
}

void StoreServer::send_weights(Worker& worker) {
  {
    const std::lock_guard lock(mutex_);
    worker.pulled_at = updates_;
  }
  for (const Own& slice : own_) worker.link->send(comm_buffer(window(weights_, slice)), 0);
}

void StoreServer::take_step(Worker& worker) {
  // All transfers are started first, so that they run while the first slices are added up.
  std::vector<std::unique_ptr<CommWork>> coming, going;
  for (const Own& slice : own_ | std::views::reverse)
    for (const Tensor& sums : worker.sums)
      coming.push_back(worker.link->start_receive(comm_buffer(window(sums, slice)), 0));
  auto next = coming.begin();
  const bool at_once = updates_at_once();
  for (Own& slice : own_ | std::views::reverse) {
    for (size_t i = 0; i < worker.sums.size(); ++i) (*next++)->wait();
    if (options_.is_asynchronous)
      update_alone(slice, worker);
    else
      meet(slice, worker);
    // The slice stays unchanged until this worker has received it and pushes its next step.
    const Tensor& given = options_.is_asynchronous ? worker.sums.front() : weights_;
    if (at_once) going.push_back(worker.link->start_send(comm_buffer(window(given, slice)), 0));
  }
  if (options_.waits_for_apply) worker.link->receive(command_buffer(worker.command), 0);
  if (!at_once) {
    apply(worker);
    for (const Own& slice : own_ | std::views::reverse)
      going.push_back(worker.link->start_send(comm_buffer(window(weights_, slice)), 0));
  }
  for (const auto& work : going) work->wait();
}

void StoreServer::wait_for_workers(std::unique_lock<std::mutex>& lock, const std::vector<bool>& has_come,
                                   const int64_t& count) {
  const auto is_over = [this, &count, before = count] { return count != before || failure_; };
  const WaitForOthers waiting;
  if (!changed_.wait_until(lock, deadline_in(options_.timeout_s), is_over))
    throw Error(ExitCode::peer_lost, fmt::format("waited {:g} s for the gradients of {}; has it stopped, or is it much "
                                                 "slower than the others?",
                                                 options_.timeout_s, missing_workers(has_come)));
  if (failure_) throw Error(*failure_);
}

void StoreServer::meet(Own& slice, const Worker& worker) {
  std::unique_lock lock(mutex_);
  if (!is_last_to_come(slice.has_come, worker.number)) return wait_for_workers(lock, slice.has_come, slice.updates);
  sum(slice);
  if (updates_at_once())
    update(slice, {.learning_rate = worker.command.learning_rate, .number = worker.command.number});
  ++slice.updates;
  changed_.notify_all();
}

void StoreServer::update_alone(Own& slice, Worker& worker) {
  const std::lock_guard lock(mutex_);
  if (&slice == &own_.back()) staleness_.count(updates_ - worker.pulled_at);
  // Each worker's update is one step of the optimizer. A run that continues counts its earlier updates, too.
  const auto workers = static_cast<int64_t>(workers_.size());
  if (slice.updates == 0) slice.updates = (worker.command.number - 1) * workers;
  // A worker's gradients are of its share of the batch. They are scaled up to stand for the whole batch, and as many
  // updates as there are workers make up one step.
  const Tensor pushed = window(worker.sums.front(), slice);
  optimizer_->step_range(slice.begin, pushed,
                         {.learning_rate = worker.command.learning_rate / static_cast<double>(workers),
                          .number = ++slice.updates,
                          .control = {.gradient_factor = workers > 1 ? workers_factor_ : Tensor()}});
  pushed.copy_from(window(weights_, slice));
  if (&slice == &own_.front()) worker.pulled_at = ++updates_;
}

void StoreServer::sum(const Own& slice) {
  TreeSum tree{.inputs = {}, .outputs = {window(gradients_, slice).raw()}, .elements = slice.size};
  for (const Worker& worker : workers_) {
    for (const Tensor& sums : worker.sums) tree.inputs.push_back(window(sums, slice).raw());
    std::ranges::copy(worker.widths, std::back_inserter(tree.widths));
  }
  tree.run(0, slice.size);
}

void StoreServer::update(const Own& slice, const optim::OptimizerStep& step) {
  optimizer_->step_range(slice.begin, window(gradients_, slice), step);
}

void StoreServer::apply(const Worker& worker) {
  std::unique_lock lock(mutex_);
  if (!is_last_to_come(applying_, worker.number)) return wait_for_workers(lock, applying_, applied_);
  const StoreCommand& command = worker.command;
  if (!command.skips) {
    optim::OptimizerStep step{.learning_rate = command.learning_rate, .number = command.number};
    if (command.gradient_factor != 1)
      step.control.gradient_factor =
          Tensor::from(*device_, {1}, std::vector<float>{command.gradient_factor}, MemoryPurpose::workspace);
    if (options_.clip_norm) step.control.gradient_factor = clip_factor(step.control.gradient_factor);
    norms_.measure(step, [&](const Tensor& squares) {
      optimizer_->measure(step, squares);
      if (links_.among_servers) links_.among_servers->all_reduce(comm_buffer(squares));
    });
    optimizer_->step(step);
  }
  ++applied_;
  changed_.notify_all();
}

Tensor StoreServer::clip_factor(const Tensor& factor) {
  const Tensor squares = ops::square_sum(gradients_);
  if (links_.among_servers) links_.among_servers->all_reduce(comm_buffer(squares));
  return ops::clip_factor(squares, *options_.clip_norm, factor);
}

void tell_slices(const std::vector<std::unique_ptr<Communicator>>& to_servers, std::vector<StoreSlice> slices) {
  for (const auto& link : to_servers) {
    std::vector<int64_t> size = {static_cast<int64_t>(slices.size())};
    link->send(buffer_of(size), 1);
    link->send(bytes_of(slices), 1);
  }
}

std::unique_ptr<StoreServer> open_store_server(ServerLinks links, StoreServerOptions options) {
  const std::string name = name_of(links);
  std::vector<int64_t> size(1);
  links.to_workers.front()->receive(buffer_of(size), 0);
  options.slices.resize(static_cast<size_t>(size[0]));
  links.to_workers.front()->receive(bytes_of(options.slices), 0);
  try {
    return std::make_unique<StoreServer>(options, std::move(links));
  } catch (const std::exception&) {
    throw described(name, std::current_exception());
  }
}

}  // namespace dptrain::parallel
