#include "ops/max_pool_kernels.h"

#include "ops/max_pool_place.h"
#include "ops/vector_lanes.h"

// Compiled once for each instruction set, see cmake/DptrainKernels.cmake.

namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE {
namespace {

/// A group of L lanes: its types, and how it is read and written.
template <int L>
struct Group {
  static constexpr int kLanes = L;
  using Floats = Row<L>;
  using Ints = typename Lanes<L>::Places;

  static Floats read(const float* from) { return load<L>(from); }
  static void write(float* to, Floats floats) { store<L>(to, floats); }
  static Ints read_bytes(const uint8_t* from) { return load_bytes<L>(from); }
  static void write_bytes(uint8_t* to, Ints ints) { store_bytes<L>(to, ints); }
};

/// A single lane, without vectors.
template <>
struct Group<1> {
  static constexpr int kLanes = 1;
  using Floats = float;
  using Ints = int32_t;

  static Floats read(const float* from) { return *from; }
  static void write(float* to, Floats value) { *to = value; }
  static Ints read_bytes(const uint8_t* from) { return *from; }
  static void write_bytes(uint8_t* to, Ints value) { *to = static_cast<uint8_t>(value); }
};

/// Calls body(Group<L>(), lane) for groups of L lanes. With `again` lanes may be processed twice, so the last group may
/// begin inside the one before it.
template <class Body>
void for_lanes(int64_t lanes, bool again, const Body& body) {
  using Whole = Group<kRegisterLanes>;
  int64_t lane = 0;
  for (; lane + kRegisterLanes <= lanes; lane += kRegisterLanes) body(Whole(), lane);
  if (again && lane > 0 && lane < lanes) return body(Whole(), lanes - kRegisterLanes);
  if constexpr (kRegisterLanes > 8)
    for (; lane + 8 <= lanes; lane += 8) body(Group<8>(), lane);
  for (; lane < lanes; ++lane) body(Group<1>(), lane);
}

/// Calls body(row, column, place) for the elements of a window that are inside the image.
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
  using Floats = typename Group<L>::Floats;
  using Ints = typename Group<L>::Ints;
  Floats best = Floats{} - __builtin_inff();
  Ints place{};
  for_window(w, out_row, out_column, [&](int64_t row, int64_t column, int32_t here) {
    const Floats value = Group<L>::read(x + (row * w.width + column) * w.lanes);
    const Ints larger = (value > best) | (value != value);
    best = larger ? value : best;
    place = larger ? Ints{} + here : place;
  });
  if (relu) {
    const Ints cut = best <= 0.f;
    best = cut ? Floats{} : best;
    place = cut ? Ints{} + int32_t{kNoPlace} : place;
  }
  Group<L>::write(y, best);
  Group<L>::write_bytes(places, place);
}

void forward(const MaxPoolWindows& w, const float* x, bool relu, float* y, uint8_t* places) {
  for (int64_t row = 0; row < w.out_height; ++row)
    for (int64_t column = 0; column < w.out_width; ++column, y += w.lanes, places += w.lanes)
      for_lanes(w.lanes, true, [&](auto group, int64_t lane) {
        forward_lanes<group.kLanes>(w, row, column, x + lane, relu, y + lane, places + lane);
      });
}

template <int L>
inline void backward_lanes(const MaxPoolWindows& w, int64_t out_row, int64_t out_column, bool add,
                           const float* incoming, const uint8_t* places, float* gradient) {
  using Floats = typename Group<L>::Floats;
  using Ints = typename Group<L>::Ints;
  const Floats share = Group<L>::read(incoming);
  const Ints place = Group<L>::read_bytes(places);
  for_window(w, out_row, out_column, [&](int64_t row, int64_t column, int32_t here) {
    float* to = gradient + (row * w.width + column) * w.lanes;
    const Floats own = place == here ? share : Floats{};
    Group<L>::write(to, add ? Group<L>::read(to) + own : own);
  });
}

void backward(const MaxPoolWindows& w, const float* incoming, const uint8_t* places, float* gradient) {
  for (int64_t i = 0; i < w.height * w.width * w.lanes; ++i) gradient[i] = 0;
  const bool overlapping = w.stride < w.kernel;
  for (int64_t row = 0; row < w.out_height; ++row)
    for (int64_t column = 0; column < w.out_width; ++column, incoming += w.lanes, places += w.lanes)
      for_lanes(w.lanes, !overlapping, [&](auto group, int64_t lane) {
        backward_lanes<group.kLanes>(w, row, column, overlapping, incoming + lane, places + lane, gradient + lane);
      });
}

}  // namespace

extern const MaxPoolKernels kMaxPool;
const MaxPoolKernels kMaxPool = {.forward = forward, .backward = backward};

}  // namespace dptrain::ops::DPTRAIN_ISA_NAMESPACE
