#include "ops/reorder_cpu.h"

#include <algorithm>

#include "base/check.h"
#include "device/parallel_for.h"
#include "ops/bf16_kernels.h"
#include "ops/f32_operands.h"
#include "ops/onednn.h"

namespace dptrain::ops::cpu {
namespace {

bool of_weights(Layout layout) { return layout == Layout::oihw8i8o || layout == Layout::oihw16i16o; }

/// Converts between f32 and bf16 in the same layout.
void convert(const Tensor& from, const Tensor& to) {
  // Below this many elements another thread costs more than it saves.
  constexpr int64_t kGrain = 16384;
  DPTRAIN_CHECK((from.dtype() == DType::f32 && to.dtype() == DType::bf16) ||
                    (from.dtype() == DType::bf16 && to.dtype() == DType::f32),
                "reorder of {} to {}", from.text(), to.text());
  parallel_ranges(from.device(), from.storage_elements(), kGrain, [&](int64_t begin, int64_t end) {
    if (to.dtype() == DType::f32)
      bf16_kernels().widen(from.data<Bfloat16>() + begin, to.data<float>() + begin, end - begin);
    else
      bf16_kernels().round(from.data<float>() + begin, to.data<Bfloat16>() + begin, end - begin);
  });
}

/// Changes the layout of f32.
void change_layout(const Tensor& from, const Tensor& to) {
  OneDnn& onednn = OneDnn::of(from.device());
  onednn.reorder(onednn.memory(onednn_desc(from), from), onednn.memory(onednn_desc(to), to));
}

}  // namespace

void reorder_into(const Tensor& from, const Tensor& to) {
  if (from.layout() == to.layout()) return convert(from, to);
  if (from.dtype() == DType::f32 && to.dtype() == DType::f32) return change_layout(from, to);
  const int64_t samples = from.shape()[0];
  // Blocks of weights span several rows of the first dimension, so weights can't be converted part by part.
  const bool whole = of_weights(from.layout()) || of_weights(to.layout());
  const int64_t step = whole ? samples : std::min(samples_at_once(from), samples_at_once(to));
  for (int64_t begin = 0; begin < samples; begin += step) {
    const int64_t end = std::min(samples, begin + step);
    const Tensor source = whole ? from : from.samples(begin, end), target = whole ? to : to.samples(begin, end);
    const Tensor changed = f32_for(target);
    change_layout(as_f32(source, source.layout()), changed);
    round_into(changed, target);
  }
}

}  // namespace dptrain::ops::cpu
