#include "comm/tree_sum.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "tensor/half_precision.h"

namespace dptrain {
namespace {

// A block of every input, the result and the temporaries stay in the L1 cache for up to 8 ranks (8 + 1 + 1 blocks of 4
// KiB). So each input is read from memory once and each output written once.
constexpr int64_t kBlockBytes = 4096;

// Number of temporaries T(n) that a fold of n ranks needs besides `result`. The left half is folded into `result` with
// T(left), then the right half into a temporary, with T(right) more: T(n) = max(T(left), 1 + T(right)). right <= left
// <= the next lower power of two, so T(2^k) <= 1 + T(2^(k-1)) <= k bounds them all.
constexpr int kTemporaries = std::countr_zero(unsigned{kMostRanks});

// `result` and `spare` must not overlap each other or an input.
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

/// How many of the first inputs together cover `ranks` ranks.
int inputs_of(const int* widths, int ranks) {
  int inputs = 0;
  for (int before = 0; before < ranks; ++inputs) before += widths[inputs];
  return inputs;
}

/// How many of the first inputs are in the left half of the tree over `ranks` ranks. Inputs are whole subtrees, so one
/// of them ends there.
int left_inputs(const int* widths, int ranks) { return inputs_of(widths, tree_left_ranks(ranks)); }

/// Does the same as `fold` for inputs that are subtrees themselves and cover `ranks` ranks in all.
template <class T>
void fold_shaped(const T* const* in, const int* widths, int ranks, int64_t count, T* __restrict result,
                 T* __restrict spare) {
  if (widths[0] == ranks) {
    std::memcpy(result, in[0], static_cast<size_t>(count) * sizeof(T));
    return;
  }
  const int left = left_inputs(widths, ranks), left_ranks = tree_left_ranks(ranks);
  fold_shaped(in, widths, left_ranks, count, result, spare);
  const T* right = in[left];
  if (widths[left] != ranks - left_ranks) {
    fold_shaped(in + left, widths + left, ranks - left_ranks, count, spare, spare + kBlockBytes / sizeof(T));
    right = spare;
  }
  for (int64_t i = 0; i < count; ++i) result[i] += right[i];
}

// Does the same for 16-bit numbers, which are widened as they are read.
constexpr int64_t kWidenedBlock = kBlockBytes / static_cast<int64_t>(sizeof(float));

template <class Half>
void fold_widened(const void* const* in, const int* widths, int ranks, int64_t at, int64_t count,
                  float* __restrict result, float* __restrict spare) {
  if (widths[0] == ranks) {
    if (ranks == 1) {
      const Half* from = static_cast<const Half*>(in[0]) + at;
      for (int64_t i = 0; i < count; ++i) result[i] = widened(from[i]);
    } else {
      std::memcpy(result, static_cast<const float*>(in[0]) + at, static_cast<size_t>(count) * sizeof(float));
    }
    return;
  }
  const int left = left_inputs(widths, ranks), left_ranks = tree_left_ranks(ranks);
  fold_widened<Half>(in, widths, left_ranks, at, count, result, spare);
  fold_widened<Half>(in + left, widths + left, ranks - left_ranks, at, count, spare, spare + kWidenedBlock);
  for (int64_t i = 0; i < count; ++i) result[i] += spare[i];
}

/// The widths of a sum's inputs, and the number of ranks that they cover.
struct Widths {
  explicit Widths(const TreeSum& sum) : of_inputs(sum.widths_of_inputs()) {
    ranks = std::accumulate(of_inputs.begin(), of_inputs.end(), 0);
  }
  std::vector<int> of_inputs;
  int ranks;
};

template <class Half>
void sum_halves(const TreeSum& sum, int64_t begin, int64_t end) {
  alignas(64) float temporaries[(1 + kTemporaries) * kWidenedBlock];
  Half rounded[kWidenedBlock];
  const Widths widths(sum);
  for (int64_t i = begin; i < end; i += kWidenedBlock) {
    const int64_t count = std::min(kWidenedBlock, end - i);
    fold_widened<Half>(sum.inputs.data(), widths.of_inputs.data(), widths.ranks, i, count, temporaries,
                       temporaries + kWidenedBlock);
    if (sum.partial) {
      for (void* output : sum.outputs) std::memcpy(static_cast<float*>(output) + i, temporaries, count * sizeof(float));
      continue;
    }
    for (int64_t k = 0; k < count; ++k) rounded[k] = rounded_to<Half>(temporaries[k]);
    for (void* output : sum.outputs) std::memcpy(static_cast<Half*>(output) + i, rounded, count * sizeof(Half));
  }
}

template <class T>
void sum_range(const TreeSum& sum, int64_t begin, int64_t end) {
  constexpr int64_t block = kBlockBytes / static_cast<int64_t>(sizeof(T));
  alignas(64) T temporaries[(1 + kTemporaries) * block];
  const T* at[kMostRanks];
  const int inputs = static_cast<int>(sum.inputs.size());
  const bool shaped = !sum.widths.empty();
  const Widths widths = shaped ? Widths(sum) : Widths(TreeSum{});
  for (int64_t i = begin; i < end; i += block) {
    const int64_t count = std::min(block, end - i);
    for (int r = 0; r < inputs; ++r) at[r] = static_cast<const T*>(sum.inputs[r]) + i;
    if (shaped)
      fold_shaped(at, widths.of_inputs.data(), widths.ranks, count, temporaries, temporaries + block);
    else
      fold(at, inputs, count, temporaries, temporaries + block);
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

void divide(const std::vector<int>& widths, int first, int ranks, int most_inputs, std::vector<InputRun>& runs) {
  const int* own = widths.data() + first;
  const int inputs = inputs_of(own, ranks);
  if (inputs <= most_inputs) {
    runs.push_back({.first = first, .inputs = inputs, .ranks = ranks});
    return;
  }
  const int left_ranks = tree_left_ranks(ranks);
  divide(widths, first, left_ranks, most_inputs, runs);
  divide(widths, first + left_inputs(own, ranks), ranks - left_ranks, most_inputs, runs);
}

void count_additions(const std::vector<int>& widths, int first, int ranks, std::vector<int>& additions) {
  const int* own = widths.data() + first;
  if (own[0] == ranks) return;
  const int left_ranks = tree_left_ranks(ranks);
  count_additions(widths, first, left_ranks, additions);
  count_additions(widths, first + left_inputs(own, ranks), ranks - left_ranks, additions);
  ++additions[static_cast<size_t>(first + inputs_of(own, ranks) - 1)];
}

}  // namespace

std::vector<InputRun> subtrees_of(const std::vector<int>& widths, int most_inputs) {
  std::vector<InputRun> runs;
  divide(widths, 0, std::accumulate(widths.begin(), widths.end(), 0), most_inputs, runs);
  return runs;
}

std::vector<int> additions_after(const std::vector<int>& widths) {
  std::vector<int> additions(widths.size());
  count_additions(widths, 0, std::accumulate(widths.begin(), widths.end(), 0), additions);
  return additions;
}

int tree_left_ranks(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - 1))); }

DType partial_sum_dtype(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

bool can_sum(DType dtype) { return dtype != DType::u8; }

std::vector<int> TreeSum::widths_of_inputs() const {
  return widths.empty() ? std::vector<int>(inputs.size(), 1) : widths;
}

bool TreeSum::is_copy() const {
  const bool is_rounded = dtype != partial_sum_dtype(dtype);
  const bool is_of_many = !widths.empty() && widths.front() > 1;
  return inputs.size() == 1 && !(is_rounded && (is_of_many || partial));
}

void TreeSum::run(int64_t begin, int64_t end) const noexcept {
  assert(!inputs.empty() && inputs.size() <= kMostRanks);
  if (begin >= end) return;
  if (is_copy()) return copy_range(*this, begin, end);
  switch (dtype) {
    case DType::f32: return sum_range<float>(*this, begin, end);
    case DType::f64: return sum_range<double>(*this, begin, end);
    // Unsigned types give a defined result if an integer sum overflows.
    case DType::i32: return sum_range<uint32_t>(*this, begin, end);
    case DType::i64: return sum_range<uint64_t>(*this, begin, end);
    case DType::bf16: return sum_halves<Bfloat16>(*this, begin, end);
    case DType::f16: return sum_halves<Float16>(*this, begin, end);
    case DType::u8: assert(false && "a type that can't be summed");
  }
}

}  // namespace dptrain
