#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dptrain {

/// A 64-bit digest of bytes, computed about as fast as they are read. Inputs that differ only within one aligned 8-byte
/// word always have different digests. Inputs that differ in more places share a digest in one case of 2^64. It detects
/// accidental damage only: unlike with Sha256, other bytes with the same digest can be found on purpose.
uint64_t bit_digest(std::span<const std::byte> bytes);

}  // namespace dptrain
