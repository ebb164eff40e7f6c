#include "device/memory_purpose.h"

#include <numeric>

namespace dptrain {

std::string_view memory_purpose_name(MemoryPurpose purpose) {
  switch (purpose) {
    case MemoryPurpose::weights: return "weights";
    case MemoryPurpose::gradients: return "gradients";
    case MemoryPurpose::optimizer: return "optimizer";
    case MemoryPurpose::activations: return "activations";
    case MemoryPurpose::workspace: return "workspace";
    case MemoryPurpose::communication: return "communication";
  }
  return "";
}

MemoryCounts operator+(const MemoryCounts& a, const MemoryCounts& b) {
  MemoryCounts sum;
  for (const MemoryPurpose purpose : kMemoryPurposes) sum[purpose] = a[purpose] + b[purpose];
  return sum;
}

MemoryCounts operator-(const MemoryCounts& a, const MemoryCounts& b) {
  MemoryCounts difference;
  for (const MemoryPurpose purpose : kMemoryPurposes) difference[purpose] = a[purpose] - b[purpose];
  return difference;
}

int64_t MemoryCounts::total_bytes() const { return std::accumulate(by_purpose.begin(), by_purpose.end(), int64_t{0}); }

}  // namespace dptrain
