#include "ops/square_sum_cpu.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "device/parallel_for.h"
#include "ops/square_digits.h"
#include "ops/square_sum_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements of a thread at a time.
constexpr int64_t kRun = 16 * kSquareBlock;
constexpr uint32_t kInfinityBits = 0x7f800000;

struct Run {
  SquareDigits digits;
  uint32_t largest = 0;  ///< the bits of the largest magnitude; the digits mean nothing where it isn't finite

  void add(const float* x, int64_t count) {
    SquarePieces pieces;
    for (int64_t at = 0; at < count; at += kSquareBlock) {
      square_sum_kernels().square_block(x + at, std::min(kSquareBlock, count - at), pieces);
      for (int piece = 0; piece < pieces.count; ++piece) digits.add(pieces.sums[piece], pieces.places[piece]);
      largest = std::max(largest, pieces.largest);
    }
    digits.carry();
  }
};

}  // namespace

void add_squares(const Tensor& values, const Tensor& sum) {
  const int64_t elements = values.storage_elements();
  std::vector<Run> runs(static_cast<size_t>((elements + kRun - 1) / kRun));
  parallel_for(values.device(), static_cast<int64_t>(runs.size()), [&](int64_t i) {
    const int64_t begin = i * kRun;
    runs[static_cast<size_t>(i)].add(values.data<float>() + begin, std::min(kRun, elements - begin));
  });
  double* numbers = sum.data<double>();
  SquareDigits total = SquareDigits::of(numbers);
  uint32_t largest = 0;
  for (const Run& run : runs) {
    total.add(run.digits);
    largest = std::max(largest, run.largest);
  }
  if (largest >= kInfinityBits) {
    using Double = std::numeric_limits<double>;
    numbers[kNotFinite] += largest == kInfinityBits ? Double::infinity() : Double::quiet_NaN();
    return;
  }
  total.carry();
  total.write(numbers);
}

}  // namespace dptrain::ops::cpu
