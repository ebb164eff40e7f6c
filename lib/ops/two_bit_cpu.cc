#include "ops/two_bit_cpu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "device/parallel_for.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Words below which another thread costs more than it brings.
constexpr int64_t kGrain = 1024;
/// Elements whose squares are added at once.
constexpr int64_t kRun = 16384;
/// Of the tree over all ranks.
constexpr int kLevels = 11;
static_assert(kMostTwoBitRanks < 1 << kLevels);

/// In double, by runs, so that it is the same for any number of threads.
double sum_of_squares(const Tensor& values) {
  const int64_t elements = values.storage_elements();
  std::vector<double> squares(static_cast<size_t>((elements + kRun - 1) / kRun));
  parallel_for(values.device(), static_cast<int64_t>(squares.size()), [&](int64_t run) {
    const int64_t begin = run * kRun;
    squares[static_cast<size_t>(run)] =
        elementwise_kernels().sum_of_squares(values.data<float>() + begin, std::min(kRun, elements - begin));
  });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

uint32_t code_of(float value, float threshold) {
  if (!std::isfinite(value)) return 3;
  return value >= threshold ? 1 : value <= -threshold ? 2 : 0;
}

/// The 16 values of a word.
struct WordValues {
  float at[kTwoBitValues];

  static WordValues of(uint32_t word, float threshold) {
    const float by_code[] = {0.f, threshold, -threshold, std::numeric_limits<float>::quiet_NaN()};
    WordValues values;
    for (int64_t k = 0; k < kTwoBitValues; ++k) values.at[k] = by_code[word >> (2 * k) & 3];
    return values;
  }
  /// Adds what stands to the left in the tree.
  void add_left(const WordValues& left) {
    for (int64_t k = 0; k < kTwoBitValues; ++k) at[k] = left.at[k] + at[k];
  }
};

/// As a binary counter: after rank r the levels of the set bits of r + 1 hold the sums of whole subtrees, which are
/// added from the smallest up at the end.
WordValues sum_of(const TwoBitMessages& messages, int64_t word) {
  WordValues level[kLevels], sum{};
  for (int64_t r = 0; r < messages.ranks; ++r) {
    const auto bits = static_cast<uint32_t>(messages.words.data<int32_t>()[r * messages.stride + word]);
    sum = WordValues::of(bits, messages.thresholds.data<float>()[r * messages.stride]);
    int height = 0;
    for (; (r >> height & 1) != 0; ++height) sum.add_left(level[height]);
    level[height] = sum;
  }
  // `sum` holds the last rank's subtree, that of the lowest set bit.
  for (int height = std::countr_zero(static_cast<uint64_t>(messages.ranks)) + 1; height < kLevels; ++height)
    if ((messages.ranks >> height & 1) != 0) sum.add_left(level[height]);
  return sum;
}

}  // namespace

void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold) {
  const double mean = sum_of_squares(values) / static_cast<double>(std::max<int64_t>(1, values.elements()));
  *threshold.data<float>() = static_cast<float>(share * std::sqrt(mean));
}

void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words) {
  const float t = *threshold.data<float>();
  const int64_t count = values.storage_elements();
  parallel_ranges(values.device(), words.elements(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t word = begin; word < end; ++word) {
      const int64_t first = word * kTwoBitValues, here = std::min(kTwoBitValues, count - first);
      uint32_t bits = 0;
      for (int64_t k = 0; k < here; ++k) bits |= code_of(values.data<float>()[first + k], t) << (2 * k);
      words.data<int32_t>()[word] = static_cast<int32_t>(bits);
    }
  });
}

void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum) {
  const int64_t count = sum.storage_elements();
  parallel_ranges(sum.device(), two_bit_words(sum), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t word = begin; word < end; ++word) {
      const WordValues values = sum_of(messages, word);
      const int64_t first = word * kTwoBitValues, here = std::min(kTwoBitValues, count - first);
      std::copy_n(values.at, here, sum.data<float>() + first);
    }
  });
}

}  // namespace dptrain::ops::cpu
