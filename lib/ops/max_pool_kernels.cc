#include "ops/max_pool_kernels.h"

#include "ops/max_pool_place.h"
#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

template <int L>
struct Integers {
  typedef int32_t Vector __attribute__((vector_size(4 * L), aligned(4)));
  typedef uint8_t Bytes __attribute__((vector_size(L), aligned(1)));
};

template <int L>
struct LaneCount {
  static constexpr int value = L;
};

/// Calls body(LaneCount<L>(), lane) for groups of L lanes. The last group may begin in the one before it where `again`
/// says that lanes may be worked on twice.
template <class Body>
void for_lanes(int64_t lanes, bool again, const Body& body) {
  int64_t lane = 0;
  for (; lane + 16 <= lanes; lane += 16) body(LaneCount<16>(), lane);
  if (again && lane > 0 && lane < lanes) return body(LaneCount<16>(), lanes - 16);
  for (; lane + 8 <= lanes; lane += 8) body(LaneCount<8>(), lane);
  for (; lane < lanes; ++lane) body(LaneCount<1>(), lane);
}

/// Calls body(row, column, place) for the elements of a window that lie inside the image.
template <class Body>
inline void for_window(const MaxPoolWindows& w, int64_t out_row, int64_t out_column, const Body& body) {
  const int64_t top = out_row * w.stride - w.padding, left = out_column * w.stride - w.padding;
  for (int64_t u = 0; u < w.kernel; ++u) {
    if (top + u < 0 || top + u >= w.height) continue;
    for (int64_t v = 0; v < w.kernel; ++v)
      if (left + v >= 0 && left + v < w.width) body(top + u, left + v, static_cast<int32_t>(u * w.kernel + v));
  }
}

template <int L>
inline void forward_lanes(const MaxPoolWindows& w, int64_t out_row, int64_t out_column, const float* x, bool relu,
                          float* y, uint8_t* places) {
  using Floats = Row<L>;
  using Ints = typename Integers<L>::Vector;
  Floats best = Floats{} - __builtin_inff();
  Ints place{};
  for_window(w, out_row, out_column, [&](int64_t row, int64_t column, int32_t here) {
    const Floats value = load<L>(x + (row * w.width + column) * w.lanes);
    const Ints larger = (value > best) | (value != value);
    best = larger ? value : best;
    place = larger ? Ints{} + here : place;
  });
  if (relu) {
    const Ints cut = best <= 0.f;
    best = cut ? Floats{} : best;
    place = cut ? Ints{} + int32_t{kNoPlace} : place;
  }
  store<L>(y, best);
  *reinterpret_cast<typename Integers<L>::Bytes*>(places) = __builtin_convertvector(place, typename Integers<L>::Bytes);
}

void forward(const MaxPoolWindows& w, const float* x, bool relu, float* y, uint8_t* places) {
  for (int64_t row = 0; row < w.out_height; ++row)
    for (int64_t column = 0; column < w.out_width; ++column, y += w.lanes, places += w.lanes)
      for_lanes(w.lanes, true, [&](auto count, int64_t lane) {
        forward_lanes<count.value>(w, row, column, x + lane, relu, y + lane, places + lane);
      });
}

template <int L>
inline void backward_lanes(const MaxPoolWindows& w, int64_t out_row, int64_t out_column, bool add,
                           const float* incoming, const uint8_t* places, float* gradient) {
  using Floats = Row<L>;
  using Ints = typename Integers<L>::Vector;
  const Floats share = load<L>(incoming);
  const Ints place = __builtin_convertvector(*reinterpret_cast<const typename Integers<L>::Bytes*>(places), Ints);
  for_window(w, out_row, out_column, [&](int64_t row, int64_t column, int32_t here) {
    float* to = gradient + (row * w.width + column) * w.lanes;
    const Floats own = place == here ? share : Floats{};
    store<L>(to, add ? load<L>(to) + own : own);
  });
}

void backward(const MaxPoolWindows& w, const float* incoming, const uint8_t* places, float* gradient) {
  for (int64_t i = 0; i < w.height * w.width * w.lanes; ++i) gradient[i] = 0;
  const bool overlapping = w.stride < w.kernel;
  for (int64_t row = 0; row < w.out_height; ++row)
    for (int64_t column = 0; column < w.out_width; ++column, incoming += w.lanes, places += w.lanes)
      for_lanes(w.lanes, !overlapping, [&](auto count, int64_t lane) {
        backward_lanes<count.value>(w, row, column, overlapping, incoming + lane, places + lane, gradient + lane);
      });
}

}  // namespace

extern const MaxPoolKernels kMaxPool;
const MaxPoolKernels kMaxPool = {.forward = forward, .backward = backward};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
