#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "device/parallel_for.h"
#include "tensor/tensor.h"

// How CPU workers compute with bf16: an operator reads a piece of a tensor, small enough for a core's own cache,
// widened to f32. It computes with the f32 kernels and rounds what it writes. f32 tensors are read and written in
// place.

namespace dptrain::ops::cpu {

/// Elements of a piece for operators without a unit of their own: 16 KB of f32.
inline constexpr int64_t kPieceElements = 4096;

/// Rows of a tensor's storage: `count` rows of `width` elements, `stride` apart, starting at element `at`.
struct StorageRows {
  int64_t at, count, width, stride;
};

/// Pieces of tensors as f32, for one thread. A piece of an f32 tensor is the tensor's memory itself. A piece of a bf16
/// tensor is a copy: it is widened when read, and rounded back to the tensor when this object is destroyed.
class Pieces {
 public:
  /// `room` holds the copies, one after the other.
  explicit Pieces(std::span<float> room) : room_(room) {}
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  ~Pieces();

  /// Returns `count` elements of the tensor's storage from `at` on: `read` to be read, `write` to be written as a
  /// whole, `update` for both. Returns null if the tensor is undefined.
  const float* read(const Tensor& x, int64_t at, int64_t count) { return read(x, {at, 1, count, count}); }
  float* write(const Tensor& y, int64_t at, int64_t count) { return write(y, {at, 1, count, count}); }
  float* update(const Tensor& y, int64_t at, int64_t count);

  /// Returns rows, which are `stride_of` elements apart in the piece.
  const float* read(const Tensor& x, const StorageRows& rows);
  float* write(const Tensor& y, const StorageRows& rows);
  static int64_t stride_of(const Tensor& x, const StorageRows& rows) {
    return x.dtype() == DType::f32 ? rows.stride : rows.width;
  }

 private:
  struct Written {
    const float* from;
    Bfloat16* to;
    StorageRows rows;
  };

  float* take(const StorageRows& rows);

  std::span<float> room_;
  std::array<Written, 3> written_{};
  size_t written_count_ = 0;
};

/// Memory for the pieces of each of a device's threads: `floats` floats each, or none if `like` is f32. It is allocated
/// before the threads begin, because an allocation failure's exception couldn't leave them.
class PieceRoom {
 public:
  PieceRoom(const Tensor& like, int64_t floats);
  std::span<float> of(int64_t part) const;

 private:
  int64_t floats_;
  Tensor memory_;
};

/// Calls body(i, pieces) for each i in [0, count), divided among the device's threads. `pieces` has room for `floats`
/// elements of tensors of `like`'s type.
template <class Body>
void for_each_unit(const Tensor& like, int64_t count, int64_t floats, const Body& body) {
  const PieceRoom room(like, floats);
  parallel_parts(like.device(), count, 1, [&](int64_t part, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Pieces pieces(room.of(part));
      body(i, pieces);
    }
  });
}

/// Calls body(at, count, pieces) for parts of the tensor's storage, divided among the device's threads. `pieces` has
/// room for `operands` operands of `count` elements.
template <class Body>
void for_each_piece(const Tensor& like, int64_t operands, const Body& body) {
  // Below this many elements another thread costs more than it saves.
  constexpr int64_t kGrain = 4 * kPieceElements;
  const PieceRoom room(like, operands * kPieceElements);
  parallel_parts(like.device(), like.storage_elements(), kGrain, [&](int64_t part, int64_t begin, int64_t end) {
    const int64_t step = like.dtype() == DType::f32 ? end - begin : kPieceElements;
    for (int64_t at = begin; at < end; at += step) {
      Pieces pieces(room.of(part));
      body(at, std::min(step, end - at), pieces);
    }
  });
}

}  // namespace dptrain::ops::cpu
