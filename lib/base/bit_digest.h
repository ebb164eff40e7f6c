#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dptrain {

/// 64 bits that are the same for the same bytes, made about as fast as these are read. Bytes that differ within one
/// aligned word of eight alone always have other ones; of those that differ more, one case in 2^64 hasn't. For what
/// goes wrong by itself: who looks for other bytes with the same digest finds some, unlike those of Sha256.
uint64_t bit_digest(std::span<const std::byte> bytes);

}  // namespace dptrain
