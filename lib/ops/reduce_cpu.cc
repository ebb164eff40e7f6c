#include "ops/reduce_cpu.h"

#include <algorithm>
#include <span>
#include <vector>

#include "ops/f32_pieces.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements that are summed in sequence, in double; the sums of such runs are then added in order.
constexpr int64_t kRun = 8192;

}  // namespace

Tensor scaled_sum(const Tensor& x, double factor) {
  const int64_t count = x.storage_elements();  // padding is zero
  std::vector<double> runs(static_cast<size_t>((count + kRun - 1) / kRun));
  for_each_unit(x, static_cast<int64_t>(runs.size()), kRun, [&](int64_t run, Pieces& pieces) {
    const int64_t begin = run * kRun, elements = std::min(kRun, count - begin);
    double sum = 0;
    for (const float value : std::span(pieces.read(x, begin, elements), static_cast<size_t>(elements))) sum += value;
    runs[static_cast<size_t>(run)] = sum;
  });
  double total = 0;
  for (const double sum : runs) total += sum;
  const auto value = static_cast<float>(total * factor);
  return Tensor::from(x.device(), {1}, std::span(&value, 1));
}

Tensor spread(const Tensor& value, double factor, const TensorForm& like) {
  const auto share = static_cast<float>(value.data<float>()[0] * factor);
  const std::vector<float> values(static_cast<size_t>(like.shape.elements()), share);
  return converted(Tensor::from(like.device, like.shape, values), {.dtype = like.dtype, .layout = like.layout});
}

}  // namespace dptrain::ops::cpu
