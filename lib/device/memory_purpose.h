#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dptrain {

/// What a piece of device memory holds. Every allocation names one purpose, and every device counts them separately.
enum class MemoryPurpose { weights, gradients, optimizer, activations, workspace, communication };

inline constexpr std::array<MemoryPurpose, 6> kMemoryPurposes = {
    MemoryPurpose::weights,     MemoryPurpose::gradients, MemoryPurpose::optimizer,
    MemoryPurpose::activations, MemoryPurpose::workspace, MemoryPurpose::communication};

/// The purpose's key in the metrics: "weights", "gradients", ...
std::string_view memory_purpose_name(MemoryPurpose purpose);

/// Bytes in use, by purpose.
struct MemoryCounts {
  std::array<int64_t, kMemoryPurposes.size()> by_purpose{};

  int64_t& operator[](MemoryPurpose purpose) { return by_purpose[static_cast<size_t>(purpose)]; }
  int64_t operator[](MemoryPurpose purpose) const { return by_purpose[static_cast<size_t>(purpose)]; }
  int64_t total_bytes() const;
  friend MemoryCounts operator+(const MemoryCounts& a, const MemoryCounts& b);
  friend MemoryCounts operator-(const MemoryCounts& a, const MemoryCounts& b);
};

}  // namespace dptrain
