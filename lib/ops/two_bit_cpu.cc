#include "ops/two_bit_cpu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "device/parallel_for.h"
#include "ops/compression_kernels.h"
#include "ops/elementwise_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Below this many words another thread costs more than it saves.
constexpr int64_t kGrain = 1024;
/// Elements whose squares are added in one run.
constexpr int64_t kRun = 16384;
static_assert(kMostTwoBitRanks < 1 << kTwoBitLevels);

/// Adds in double and by runs, so that the sum is the same for any number of threads.
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

}  // namespace

void two_bit_threshold(const Tensor& values, double share, const Tensor& threshold) {
  const double mean = sum_of_squares(values) / static_cast<double>(std::max<int64_t>(1, values.elements()));
  *threshold.data<float>() = static_cast<float>(share * std::sqrt(mean));
}

void two_bit_encode(const Tensor& values, const Tensor& threshold, const Tensor& words) {
  const float t = *threshold.data<float>();
  const int64_t count = values.storage_elements();
  parallel_ranges(values.device(), words.elements(), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kTwoBitValues;
    compression_kernels().two_bit_encode(values.data<float>() + first, t, words.data<int32_t>() + begin,
                                         std::min(end * kTwoBitValues, count) - first);
  });
}

void two_bit_decode(const TwoBitMessages& messages, const Tensor& sum) {
  const int64_t count = sum.storage_elements();
  parallel_ranges(sum.device(), two_bit_words(sum), kGrain, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kTwoBitValues;
    const TwoBitRanks ranks{.words = messages.words.data<int32_t>() + begin,
                            .thresholds = messages.thresholds.data<float>(),
                            .ranks = messages.ranks,
                            .stride = messages.stride};
    compression_kernels().two_bit_decode(ranks, sum.data<float>() + first,
                                         std::min(end * kTwoBitValues, count) - first);
  });
}

}  // namespace dptrain::ops::cpu
