#include "comm/tree_sum.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "tensor/half_precision.h"

namespace dptrain {
namespace {

// A block of every input, the result and the temporaries stay in the L1 cache for up to 8 ranks (8 + 1 + 1 blocks of 4
// KiB), so that memory sees each input read once and each output written once.
constexpr int64_t kBlockBytes = 4096;

// Temporaries that `fold` needs beside `result`, T(n). Up to 4 inputs none. Above, the left half is folded into
// `result` with T(left), then the right half into a temporary, which leaves it T(right) more: T(n) = max(T(left), 1 +
// T(right)). right <= left <= the next lower power of two, so T(2^k) = 1 + T(2^(k-1)) = k - 2 bounds them all: 8 for
// 1024 inputs.
constexpr int kTemporaries = std::countr_zero(unsigned{kMaxTreeInputs}) - 2;

// `result` and `spare` overlap neither each other nor an input.
template <class T>
void fold(const T* const* in, int ranks, int64_t count, T* __restrict result, T* __restrict spare) {
  const T *a = in[0], *b = in[1];
  if (ranks == 2) {
    for (int64_t i = 0; i < count; ++i) result[i] = a[i] + b[i];
    return;
  }
  const T* c = in[2];
  if (ranks == 3) {
    for (int64_t i = 0; i < count; ++i) result[i] = (a[i] + b[i]) + c[i];
    return;
  }
  if (ranks == 4) {
    const T* d = in[3];
    for (int64_t i = 0; i < count; ++i) result[i] = (a[i] + b[i]) + (c[i] + d[i]);
    return;
  }
  const int left = tree_left_ranks(ranks);
  fold(in, left, count, result, spare);
  const T* right = in[left];
  if (ranks - left > 1) {
    fold(in + left, ranks - left, count, spare, spare + kBlockBytes / sizeof(T));
    right = spare;
  }
  for (int64_t i = 0; i < count; ++i) result[i] += right[i];
}

// The same of numbers of 16 bits, which are widened as they are read: one temporary more for either half, T(2^k) = k.
constexpr int kWidenedTemporaries = std::countr_zero(unsigned{kMaxTreeInputs});
constexpr int64_t kWidenedBlock = kBlockBytes / static_cast<int64_t>(sizeof(float));

template <class Half>
void fold_widened(const Half* const* in, int ranks, int64_t count, float* __restrict result, float* __restrict spare) {
  if (ranks == 1) {
    for (int64_t i = 0; i < count; ++i) result[i] = widened(in[0][i]);
    return;
  }
  const int left = tree_left_ranks(ranks);
  fold_widened(in, left, count, result, spare);
  fold_widened(in + left, ranks - left, count, spare, spare + kWidenedBlock);
  for (int64_t i = 0; i < count; ++i) result[i] += spare[i];
}

template <class Half>
void sum_halves(const TreeSum& sum, int64_t begin, int64_t end) {
  alignas(64) float temporaries[(1 + kWidenedTemporaries) * kWidenedBlock];
  Half rounded[kWidenedBlock];
  const Half* at[kMaxTreeInputs];
  const int ranks = static_cast<int>(sum.inputs.size());
  for (int64_t i = begin; i < end; i += kWidenedBlock) {
    const int64_t count = std::min(kWidenedBlock, end - i);
    for (int r = 0; r < ranks; ++r) at[r] = static_cast<const Half*>(sum.inputs[r]) + i;
    fold_widened(at, ranks, count, temporaries, temporaries + kWidenedBlock);
    for (int64_t k = 0; k < count; ++k) rounded[k] = rounded_to<Half>(temporaries[k]);
    for (void* output : sum.outputs) std::memcpy(static_cast<Half*>(output) + i, rounded, count * sizeof(Half));
  }
}

template <class T>
void sum_range(const TreeSum& sum, int64_t begin, int64_t end) {
  constexpr int64_t block = kBlockBytes / static_cast<int64_t>(sizeof(T));
  alignas(64) T temporaries[(1 + kTemporaries) * block];
  const T* at[kMaxTreeInputs];
  const int ranks = static_cast<int>(sum.inputs.size());
  for (int64_t i = begin; i < end; i += block) {
    const int64_t count = std::min(block, end - i);
    for (int r = 0; r < ranks; ++r) at[r] = static_cast<const T*>(sum.inputs[r]) + i;
    fold(at, ranks, count, temporaries, temporaries + block);
    for (void* output : sum.outputs) std::memcpy(static_cast<T*>(output) + i, temporaries, count * sizeof(T));
  }
}

void copy_range(const TreeSum& sum, int64_t begin, int64_t end) {
  const int64_t width = dtype_bytes(sum.dtype);
  const auto* from = static_cast<const std::byte*>(sum.inputs[0]);
  for (void* output : sum.outputs) {
    if (output != from)
      std::memcpy(static_cast<std::byte*>(output) + begin * width, from + begin * width, (end - begin) * width);
  }
}

}  // namespace

int tree_left_ranks(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1))); }

bool can_sum(DType dtype) { return dtype != DType::u8; }

void TreeSum::run(int64_t begin, int64_t end) const noexcept {
  assert(!inputs.empty() && inputs.size() <= kMaxTreeInputs);
  if (begin >= end) return;
  if (inputs.size() == 1) return copy_range(*this, begin, end);
  switch (dtype) {
    case DType::f32: return sum_range<float>(*this, begin, end);
    case DType::f64: return sum_range<double>(*this, begin, end);
    // Unsigned, for a defined result where an integer sum overflows.
    case DType::i32: return sum_range<uint32_t>(*this, begin, end);
    case DType::i64: return sum_range<uint64_t>(*this, begin, end);
    case DType::bf16: return sum_halves<Bfloat16>(*this, begin, end);
    case DType::f16: return sum_halves<Float16>(*this, begin, end);
    case DType::u8: assert(false && "a type that can't be summed");
  }
}

}  // namespace dptrain
