#pragma once

namespace dptrain::testing {

/// Whether ThreadSanitizer watches this build. It doesn't see how libgomp's thread teams synchronize, and reports races
/// between their threads that don't exist. So a test of devices with several threads skips.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
inline constexpr const char* kTeamsAreUnseen = "ThreadSanitizer doesn't see how teams of OpenMP's threads meet";

/// Whether a sanitizer keeps shadow memory, which takes terabytes of address space. A test that limits the address
/// space then skips.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kShadowedMemory = true;
#else
inline constexpr bool kShadowedMemory = kThreadSanitizer;
#endif
inline constexpr const char* kShadowNeedsAddresses = "a sanitizer's shadow of memory is larger than the limit";

}  // namespace dptrain::testing
