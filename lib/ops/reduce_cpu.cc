#include "ops/reduce_cpu.h"

#include <algorithm>
#include <vector>

#include "device/parallel_for.h"
#include "ops/reorder.h"

namespace dptrain::ops::cpu {
namespace {

/// Elements that are summed one after the other, in double; the sums of such runs are then added in order.
constexpr int64_t kRun = 8192;

}  // namespace

Tensor scaled_sum(const Tensor& x, double factor) {
  const int64_t count = x.storage_elements();  // padding is zero
  std::vector<double> runs(static_cast<size_t>((count + kRun - 1) / kRun));
  parallel_for(x.device(), static_cast<int64_t>(runs.size()), [&](int64_t run) {
    double sum = 0;
    for (int64_t i = run * kRun; i < std::min(count, (run + 1) * kRun); ++i) sum += x.data<float>()[i];
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
  return reorder(Tensor::from(like.device, like.shape, values), like.layout);
}

}  // namespace dptrain::ops::cpu
