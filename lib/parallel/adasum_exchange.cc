#include "parallel/adasum_exchange.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/adasum.h"
#include "ops/tensor_squares.h"
#include "parallel/comm_buffer.h"

namespace dptrain::parallel {
namespace {

/// Boundaries between parts are multiples of it, as those between parameters are.
constexpr int64_t kAlignElements = 16;

Tensor part_of(const Tensor& flat, const OwnedRange& range) {
  return flat.window(range.begin, {range.elements()}, Layout::plain);
}

/// A pair of subtrees: the vectors in which each is combined.
struct Pair {
  size_t first = 0, second = 0;
};

/// The pairs of a tree over `count` vectors whose subtrees have `width` vectors each; the last may have fewer.
std::vector<Pair> pairs_of(size_t count, size_t width) {
  std::vector<Pair> pairs;
  for (size_t first = 0; first + width < count; first += 2 * width) pairs.push_back({first, first + width});
  return pairs;
}

}  // namespace

AdasumExchange::AdasumExchange(Communicator& communicator, const optim::FlatWeights& flat,
                               std::function<void()> between)
    : communicator_(communicator), between_(std::move(between)) {
  const int64_t ranks = communicator.size(), all = flat.elements(),
                blocks = (all + kAlignElements - 1) / kAlignElements;
  part_elements_ = (blocks + ranks - 1) / ranks * kAlignElements;
  for (int rank = 0; rank < communicator.size(); ++rank)
    parts_.push_back({.begin = std::min(all, rank * part_elements_),
                      .end = std::min(all, (rank + 1) * part_elements_),
                      .owner = rank});
  table_ = optim::tensor_table_of(flat.range(own().begin, own().end), true);
}

void AdasumExchange::combine(const Tensor& change) {
  if (communicator_.size() == 1) return;
  between_();
  // The other vectors' memory is free again before the parts are handed out.
  const Tensor combined = [&] {
    const std::vector<Tensor> vectors = collect(change);
    combine_parts(vectors);
    return vectors.front();
  }();
  hand_out(combined, change);
}

std::vector<Tensor> AdasumExchange::collect(const Tensor& change) {
  const int rank = communicator_.rank(), ranks = communicator_.size();
  std::vector<Tensor> vectors;
  for (int r = 0; r < ranks; ++r)
    vectors.push_back(Tensor::empty(change.device(), {own().elements()}, {.purpose = MemoryPurpose::communication}));
  vectors[static_cast<size_t>(rank)].copy_from(part_of(change, own()));
  // In every round all ranks send to different ones.
  std::vector<std::unique_ptr<CommWork>> under_way;
  for (int round = 1; round < ranks; ++round) {
    const int to = (rank + round) % ranks, from = (rank + ranks - round) % ranks;
    const OwnedRange& sent = parts_[static_cast<size_t>(to)];
    if (own().elements() > 0)
      under_way.push_back(communicator_.start_receive(comm_buffer(vectors[static_cast<size_t>(from)]), from));
    if (sent.elements() > 0) under_way.push_back(communicator_.start_send(comm_buffer(part_of(change, sent)), to));
  }
  for (const auto& work : under_way) work->wait();
  between_();
  return vectors;
}

void AdasumExchange::combine_parts(const std::vector<Tensor>& vectors) {
  Device& device = vectors.front().device();
  for (size_t width = 1; width < vectors.size(); width *= 2) {
    const std::vector<Pair> pairs = pairs_of(vectors.size(), width);
    const auto tensors = static_cast<int64_t>(pairs.size()) * table_.tensors;
    const Tensor norms = ops::no_tensor_squares(device, tensors), squares = ops::no_tensor_squares(device, tensors);
    const auto of_pair = [&](const Tensor& all, size_t pair) {
      const auto first = static_cast<int64_t>(pair) * table_.tensors;
      return all.samples(first, first + table_.tensors);
    };
    for (size_t p = 0; p < pairs.size(); ++p)
      ops::tensor_squares(vectors[pairs[p].first], vectors[pairs[p].second], table_, of_pair(norms, p));
    add_up(norms);
    for (size_t p = 0; p < pairs.size(); ++p)
      ops::adasum_squares(vectors[pairs[p].first], vectors[pairs[p].second], table_, of_pair(norms, p),
                          of_pair(squares, p));
    add_up(squares);
    for (size_t p = 0; p < pairs.size(); ++p)
      ops::adasum(vectors[pairs[p].first], vectors[pairs[p].second], table_, of_pair(norms, p), of_pair(squares, p));
  }
}

void AdasumExchange::add_up(const Tensor& squares) {
  between_();
  communicator_.all_reduce(comm_buffer(squares));
  between_();
}

void AdasumExchange::hand_out(const Tensor& combined, const Tensor& change) {
  const TensorOptions workspace{.purpose = MemoryPurpose::communication};
  const Tensor part = Tensor::zeros(change.device(), {part_elements_}, workspace),
               all = Tensor::empty(change.device(), {communicator_.size() * part_elements_}, workspace);
  if (own().elements() > 0) part.window(0, combined.shape(), Layout::plain).copy_from(combined);
  between_();
  communicator_.all_gather(comm_buffer(part), comm_buffer(all));
  between_();
  change.copy_from(all.window(0, change.shape(), Layout::plain));
}

}  // namespace dptrain::parallel
