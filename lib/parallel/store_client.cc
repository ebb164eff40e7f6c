#include "parallel/store_client.h"

#include <algorithm>
#include <exception>
#include <ranges>
#include <utility>

#include "base/check.h"
#include "comm/tree_sum.h"

namespace dptrain::parallel {
namespace {

/// Only the receiver of a message writes to its bytes.
CommBuffer elements_of(const float* flat, const StoreSlice& slice) {
  return {.data = const_cast<float*>(flat) + slice.begin, .elements = slice.elements(), .dtype = DType::f32};
}

}  // namespace

StoreClient::StoreClient(const StoreClientOptions& options, std::vector<Communicator*> links)
    : options_(options),
      links_(std::move(links)),
      slices_(options.keys.size()),
      pushed_(options.keys.size()),
      next_(options.keys.size() - 1),
      coming_(options.keys.size()) {
  const auto size = static_cast<size_t>(options.keys.back().end);
  for (const StoreSlice& slice : options.slices) slices_[slice.key].push_back(slice);
  weights_.resize(size);
  for (const RankRun& subtree : options.subtrees) sums_.emplace_back(subtree.size() > 1 ? size : 0);
  commands_.resize(links_.size());
}

StoreClient::~StoreClient() {
  if (begun_) {
    for (Communicator* link : links_) link->abort("a worker of the key-value store has ended during a step");
    return;
  }
  try {
    command_all({.kind = StoreCommand::Kind::end});
  } catch (const std::exception&) {
    // The links have failed; the servers then end by themselves.
  }
}

void StoreClient::command_all(StoreCommand command) {
  std::vector<std::unique_ptr<CommWork>> going;
  for (Communicator* link : links_) going.push_back(link->start_send(command_buffer(command), 1));
  for (const auto& work : going) work->wait();
}

void StoreClient::begin_step(const StoreCommand& command) {
  const std::lock_guard lock(mutex_);
  step_ = command;
  step_.kind = StoreCommand::Kind::step;
}

size_t StoreClient::pushes_of_key() const {
  return options_.adds_ranks ? static_cast<size_t>(options_.subtrees.back().end) : options_.subtrees.size();
}

void StoreClient::push(int rank, size_t key, const float* gradients) {
  const std::lock_guard lock(mutex_);
  Pushed& pushed = pushed_[key];
  pushed.gradients.resize(static_cast<size_t>(options_.subtrees.back().end));
  pushed.gradients[static_cast<size_t>(rank)] = gradients;
  if (++pushed.pushes < pushes_of_key()) return;
  DPTRAIN_CHECK(key == next_, "key {} is pushed to servers before key {}", key, next_);
  next_ = key == 0 ? options_.keys.size() - 1 : key - 1;
  pushed.pushes = 0;
  send(key);
}

const float* StoreClient::sum_of(size_t subtree, size_t key) {
  const RankRun& ranks = options_.subtrees[subtree];
  const std::vector<const float*>& gradients = pushed_[key].gradients;
  if (ranks.size() == 1 || !options_.adds_ranks) return gradients[static_cast<size_t>(ranks.begin)];
  const StoreKey& range = options_.keys[key];
  TreeSum tree{.inputs = {}, .outputs = {sums_[subtree].data() + range.begin}, .elements = range.end - range.begin};
  for (int rank = ranks.begin; rank < ranks.end; ++rank)
    tree.inputs.push_back(gradients[static_cast<size_t>(rank)] + range.begin);
  tree.run(0, tree.elements);
  return sums_[subtree].data();
}

void StoreClient::send(size_t key) {
  if (!std::exchange(begun_, true)) {
    for (size_t s = 0; s < links_.size(); ++s) {
      commands_[s] = step_;
      going_.push_back(links_[s]->start_send(command_buffer(commands_[s]), 1));
    }
  }
  std::vector<const float*> sums;
  for (size_t i = 0; i < options_.subtrees.size(); ++i) sums.push_back(sum_of(i, key));
  for (const StoreSlice& slice : slices_[key] | std::views::reverse) {
    Communicator& link = *links_[static_cast<size_t>(slice.server)];
    for (const float* sum : sums) going_.push_back(link.start_send(elements_of(sum, slice), 1));
    coming_[key].push_back(link.start_receive(elements_of(weights_.data(), slice), 1));
  }
}

const float* StoreClient::whole_sum(size_t key) const {
  DPTRAIN_CHECK(options_.subtrees.size() == 1, "{} subtrees have no sum in common here", options_.subtrees.size());
  const std::lock_guard lock(mutex_);
  const bool is_added_here = options_.adds_ranks && options_.subtrees.front().size() > 1;
  return is_added_here ? sums_.front().data() : pushed_[key].gradients.front();
}

void StoreClient::end_step(const StoreCommand& command) {
  std::unique_lock lock(mutex_);
  const auto going = std::exchange(going_, {});
  lock.unlock();
  for (const auto& work : going) work->wait();
  if (options_.ends_with_apply) {
    StoreCommand apply = command;
    apply.kind = StoreCommand::Kind::apply;
    command_all(apply);
  }
}

const float* StoreClient::pulled(size_t key) {
  for (const auto& work : std::exchange(coming_[key], {})) work->wait();
  if (key == 0) begun_ = false;
  return weights_.data();
}

void StoreClient::pull() {
  command_all({.kind = StoreCommand::Kind::pull});
  for (const StoreSlice& slice : options_.slices)
    coming_[slice.key].push_back(
        links_[static_cast<size_t>(slice.server)]->start_receive(elements_of(weights_.data(), slice), 1));
}

Staleness StoreClient::take_staleness() {
  command_all({.kind = StoreCommand::Kind::tell});
  Staleness all;
  for (Communicator* link : links_) {
    std::vector<int64_t> size(1);
    link->receive(buffer_of(size), 1);
    Staleness of_server{.pushes = std::vector<int64_t>(static_cast<size_t>(size[0]))};
    if (size[0] > 0) link->receive(buffer_of(of_server.pushes), 1);
    all += of_server;
  }
  return all;
}

void StoreClient::write(const float* weights, const std::vector<const float*>& states) {
  command_all({.kind = StoreCommand::Kind::write, .has_state = !states.empty()});
  std::vector<const float*> all = {weights};
  std::ranges::copy(states, std::back_inserter(all));
  for (const float* flat : all)
    for (const StoreSlice& slice : options_.slices)
      links_[static_cast<size_t>(slice.server)]->send(elements_of(flat, slice), 1);
}

void StoreClient::read(const std::vector<float*>& states) {
  command_all({.kind = StoreCommand::Kind::read});
  for (const float* flat : states)
    for (const StoreSlice& slice : options_.slices)
      links_[static_cast<size_t>(slice.server)]->receive(elements_of(flat, slice), 1);
}

CommCounts StoreClient::counts() const {
  const std::lock_guard lock(mutex_);
  CommCounts counts;
  for (const Communicator* link : links_) counts.bytes += link->counts().bytes;
  return counts;
}

}  // namespace dptrain::parallel
