#include "data/epoch_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace dptrain {
namespace {

/// The order of the samples of process `process`, numbered from 0.
std::vector<int64_t> order_of_part(int64_t samples, const EpochKey& key, uint32_t process) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  DPTRAIN_CHECK(samples >= 0 && samples <= kMost && key.epoch >= 0 && key.epoch <= kMost, "{} samples in epoch {}",
                samples, key.epoch);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (!key.shuffle) return order;
  // Fisher and Yates (Knuth, TAOCP 2, 3.4.2 P), from the end; the word drawn for place i is word i.
  const KeyedRandom random(key.seed, RandomPurpose::shuffle, static_cast<uint32_t>(key.epoch), process);
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[random.below(i, static_cast<uint32_t>(i + 1))]);
  return order;
}

/// Calls take(process, count) for each run of an epoch's samples that one process takes, in order.
template <class Take>
void for_each_share(int64_t samples, const BatchShares& shares, const Take& take) {
  for (int64_t first = 0; first < samples; first += shares.batch_size) {
    const int64_t batch = std::min(shares.batch_size, samples - first);
    for (int64_t m = 0; m < shares.micro_batches; ++m) {
      const int64_t micro = (m + 1) * batch / shares.micro_batches - m * batch / shares.micro_batches;
      int part = 0;
      for (size_t process = 0; process < shares.parts_of_processes.size(); ++process) {
        const int begin = part;
        part += shares.parts_of_processes[process];
        if (part == begin) continue;
        take(process, shares.split.range(part - 1, micro).second - shares.split.range(begin, micro).first);
      }
    }
  }
}

}  // namespace

std::vector<int64_t> epoch_order(int64_t samples, const EpochKey& key) { return order_of_part(samples, key, 0); }

std::vector<int64_t> partitioned_epoch_order(int64_t samples, const BatchShares& shares, const EpochKey& key) {
  const std::vector<int>& parts = shares.parts_of_processes;
  DPTRAIN_CHECK(shares.batch_size > 0 && std::accumulate(parts.begin(), parts.end(), 0) == shares.split.parts(),
                "{} processes share {} parts of batches of {}", parts.size(), shares.split.parts(), shares.batch_size);
  std::vector<int64_t> counts(parts.size());
  for_each_share(samples, shares, [&](size_t process, int64_t count) { counts[process] += count; });
  std::vector<std::vector<int64_t>> of_process;
  int64_t begin = 0;
  for (size_t process = 0; process < parts.size(); ++process) {
    of_process.push_back(order_of_part(counts[process], key, static_cast<uint32_t>(process)));
    for (int64_t& sample : of_process.back()) sample += begin;
    begin += counts[process];
  }
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(samples));
  std::vector<int64_t> taken(parts.size());
  for_each_share(samples, shares, [&](size_t process, int64_t count) {
    const auto from = of_process[process].begin() + taken[process];
    order.insert(order.end(), from, from + count);
    taken[process] += count;
  });
  return order;
}

}  // namespace dptrain
