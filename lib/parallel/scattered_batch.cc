#include "parallel/scattered_batch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "parallel/text_numbers.h"

namespace dptrain::parallel {
namespace {

BatchPart labels_of_all(const std::vector<BatchPart>& shares) {
  BatchPart all;
  all.targets.resize(shares.front().targets.size());
  for (const BatchPart& share : shares)
    for (size_t k = 0; k < all.targets.size(); ++k)
      std::ranges::copy(share.targets[k], std::back_inserter(all.targets[k]));
  return all;
}

}  // namespace

ScatteredBatch::ScatteredBatch(std::shared_ptr<const Batch> whole, const BatchSplit& split, int first_rank, int ranks)
    : batch(std::move(whole)) {
  for (const dptrain::MicroBatch& micro : batch->micro_batches) {
    MicroBatch& scattered = micro_batches.emplace_back(MicroBatch{.whole = &micro.parts[0]});
    const int64_t first = split.range(first_rank, micro.samples).first;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto [begin, end] = split.range(first_rank + rank, micro.samples);
      scattered.shares.push_back(share_of(*scattered.whole, begin - first, end - first));
    }
    scattered.labels = labels_of_all(scattered.shares);
  }
}

StepParts ScatteredBatch::shares_of(int rank) const {
  StepParts parts;
  for (const MicroBatch& micro : micro_batches) parts.push_back(&micro.shares[static_cast<size_t>(rank)]);
  return parts;
}

StepParts ScatteredBatch::all_shares() const {
  StepParts parts;
  for (const MicroBatch& micro : micro_batches)
    for (const BatchPart& share : micro.shares) parts.push_back(&share);
  return parts;
}

ScatteredParts scattered_parts(PartReader& reader, const ScatteredBatch& batch, const ScatterRole& role) {
  ScatteredParts carried;
  PartPlace next;
  const auto carry = [&](const BatchPart& part) {
    carried.parts.push_back(&part);
    const PartPlace place = next;
    reader.go_past(next, part);
    return place;
  };
  std::vector<int64_t> rows(batch.batch->counts.size());
  for (const ScatteredBatch::MicroBatch& micro : batch.micro_batches) {
    const BatchPart& share = micro.shares[static_cast<size_t>(role.rank)];
    ScatteredParts::MicroBatch& at = carried.micro_batches.emplace_back();
    at.rows = rows;
    if (role.decodes && micro.whole->dataset != nullptr) at.whole = carry(*micro.whole);
    at.share = carry(share);
    if (role.computes_losses) at.labels = carry(micro.labels);
    const BatchPart& kept = role.computes_losses ? micro.labels : share;
    for (size_t k = 0; k < rows.size(); ++k) rows[k] += static_cast<int64_t>(kept.targets[k].size());
  }
  return carried;
}

}  // namespace dptrain::parallel
