// What device code sees: the qualifiers, the thread's indices, barriers, warp exchanges, atomics and intrinsics. Only
// this folder's cuda_runtime.h includes this file. Names and signatures: CUDA C++ Programming Guide, chapter 10, and
// the CUDA Math API.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>
#include <vector_functions.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
// A block runs on one host thread from beginning to end, and a host thread runs one block at a time.
#define __shared__ static thread_local
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)

namespace dptrain::cuda_sim {

struct Votes {
  int yes = 0;    // threads that arrived with a true predicate
  int total = 0;  // threads that arrived
};
enum class Exchange { kShuffle, kBallot, kSync };

// Waits for all of the block's threads that have not returned.
Votes barrier(bool predicate);
// Waits for the lanes of `mask`. kShuffle returns the value of lane `source_lane`; kBallot returns the lanes whose
// value is not 0.
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source_lane, Exchange kind);
// The calling thread's lane in its warp, 0 to 31.
int lane();
// Ends the grid with cudaErrorLaunchFailure, and prints `what` with the thread's indices on stderr.
void fault(const char* what);

}  // namespace dptrain::cuda_sim

// POD thread-locals with static initialization: reading one is one instruction.
extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread dim3 blockDim;
extern __thread dim3 gridDim;
inline constexpr int warpSize = 32;

inline void __syncthreads() { dptrain::cuda_sim::barrier(false); }
inline int __syncthreads_count(int predicate) { return dptrain::cuda_sim::barrier(predicate != 0).yes; }
inline int __syncthreads_or(int predicate) { return dptrain::cuda_sim::barrier(predicate != 0).yes != 0; }
inline int __syncthreads_and(int predicate) {
  const auto votes = dptrain::cuda_sim::barrier(predicate != 0);
  return votes.yes == votes.total;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  dptrain::cuda_sim::exchange(mask, 0, 0, dptrain::cuda_sim::Exchange::kSync);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(
      dptrain::cuda_sim::exchange(mask, predicate != 0, 0, dptrain::cuda_sim::Exchange::kBallot));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

namespace dptrain::cuda_sim {

template <typename T>
T shuffle(unsigned mask, T value, int source_lane) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source_lane, Exchange::kShuffle);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace dptrain::cuda_sim

// `width` is a power of two up to 32: lanes exchange within segments of that length.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int self = dptrain::cuda_sim::lane();
  return dptrain::cuda_sim::shuffle(mask, value, (self & ~(width - 1)) + (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int self = dptrain::cuda_sim::lane();
  const int source = self ^ lane_mask;  // a lane of a later segment is not read, but a lane of an earlier segment is
  return dptrain::cuda_sim::shuffle(mask, value, source < (self & ~(width - 1)) + width ? source : self);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int self = dptrain::cuda_sim::lane();
  const bool inside = (self & (width - 1)) + static_cast<int>(delta) < width;
  return dptrain::cuda_sim::shuffle(mask, value, inside ? self + static_cast<int>(delta) : self);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int self = dptrain::cuda_sim::lane();
  const bool inside = (self & (width - 1)) >= static_cast<int>(delta);
  return dptrain::cuda_sim::shuffle(mask, value, inside ? self - static_cast<int>(delta) : self);
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() {}
inline void __threadfence_system() { __threadfence(); }
[[noreturn]] inline void __trap() { std::abort(); }

namespace dptrain::cuda_sim {

// Two host threads may run grids of different streams at once, so atomics are atomic.
template <typename T, typename Change>
T atomic_change(T* address, Change change) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static_assert(sizeof(T) == sizeof(Bits));
  auto* word = reinterpret_cast<Bits*>(address);
  Bits old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, std::bit_cast<Bits>(T(change(std::bit_cast<T>(old)))), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return std::bit_cast<T>(old);
}
template <typename T>
inline constexpr bool kAtomicInteger =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <typename T>
inline constexpr bool kAtomicNumber = kAtomicInteger<T> || std::is_same_v<T, float> || std::is_same_v<T, double>;

}  // namespace dptrain::cuda_sim

// The value's type does not take part in deduction, so that atomicAdd(float*, 1) converts as the overloads of CUDA do.
template <typename T>
requires dptrain::cuda_sim::kAtomicNumber<T> T atomicAdd(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old + value; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicInteger<T> T atomicSub(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old - value; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicNumber<T> T atomicMax(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old < value ? value : old; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicNumber<T> T atomicMin(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return value < old ? value : old; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicNumber<T> T atomicExch(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T) { return value; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicInteger<T> T atomicOr(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old | value; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicInteger<T> T atomicAnd(T* address, std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old & value; });
}
template <typename T>
requires dptrain::cuda_sim::kAtomicInteger<T> T atomicCAS(T* address, std::type_identity_t<T> compare,
                                                          std::type_identity_t<T> value) {
  return dptrain::cuda_sim::atomic_change(address, [=](T old) { return old == compare ? value : old; });
}

#include "cuda_sim_math.h"
