#include "ops/square_sum_cpu.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "device/parallel_for.h"
#include "ops/square_run_cpu.h"
#include "ops/square_sum_kernels.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements that a thread sums at a time.
constexpr int64_t kElementsOfRun = 16 * kSquareBlock;
constexpr uint32_t kInfinityBits = 0x7f800000;

}  // namespace

void SquareRun::add(const float* x, int64_t count) {
  SquarePieces pieces;
  for (int64_t at = 0; at < count; at += kSquareBlock) {
    square_sum_kernels().square_block(x + at, std::min(kSquareBlock, count - at), pieces);
    for (int piece = 0; piece < pieces.count; ++piece) digits.add(pieces.sums[piece], pieces.places[piece]);
    largest = std::max(largest, pieces.largest);
  }
  digits.carry();
}

void add_runs(std::span<const SquareRun> runs, double* sum) {
  SquareDigits total = SquareDigits::of(sum);
  uint32_t largest = 0;
  for (const SquareRun& run : runs) {
    total.add(run.digits);
    largest = std::max(largest, run.largest);
  }
  if (largest >= kInfinityBits) {
    using Double = std::numeric_limits<double>;
    sum[kNotFinite] += largest == kInfinityBits ? Double::infinity() : Double::quiet_NaN();
    return;
  }
  total.carry();
  total.write(sum);
}

void add_squares(const Tensor& values, const Tensor& sum) {
  const int64_t elements = values.storage_elements();
  std::vector<SquareRun> runs(static_cast<size_t>((elements + kElementsOfRun - 1) / kElementsOfRun));
  parallel_for(values.device(), static_cast<int64_t>(runs.size()), [&](int64_t i) {
    const int64_t begin = i * kElementsOfRun;
    runs[static_cast<size_t>(i)].add(values.data<float>() + begin, std::min(kElementsOfRun, elements - begin));
  });
  add_runs(runs, sum.data<double>());
}

}  // namespace dptrain::ops::cpu
