#include "parallel/evaluation.h"

#include "data/dataset.h"

namespace dptrain::parallel {

int64_t evaluation_block(const Dataset& dataset, DeviceKind kind) {
  const int64_t on_cpu = dynamic_cast<const TextDataset*>(&dataset) != nullptr ? 8 : 64;
  return kind == DeviceKind::cuda ? 8 * on_cpu : on_cpu;
}

}  // namespace dptrain::parallel
