#include "ops/reorder_cpu.h"

#include "ops/onednn.h"

namespace dptrain::ops::cpu {

void reorder_into(const Tensor& from, const Tensor& to) {
  OneDnn& onednn = OneDnn::of(from.device());
  onednn.reorder(onednn.memory(onednn_desc(from), from), onednn.memory(onednn_desc(to), to));
}

}  // namespace dptrain::ops::cpu
