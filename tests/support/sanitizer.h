#pragma once

namespace dptrain::testing {

/// Whether ThreadSanitizer watches this build. It doesn't see how libgomp's teams of threads meet, and reports races
/// between their threads that aren't there: a test of devices with several threads skips.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
inline constexpr const char* kTeamsAreUnseen = "ThreadSanitizer doesn't see how teams of OpenMP's threads meet";

/// Whether a sanitizer keeps a shadow of memory, which takes terabytes of address space: a test that limits that skips.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kShadowedMemory = true;
#else
inline constexpr bool kShadowedMemory = kThreadSanitizer;
#endif
inline constexpr const char* kShadowNeedsAddresses = "a sanitizer's shadow of memory is larger than the limit";

}  // namespace dptrain::testing
