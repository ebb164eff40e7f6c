#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "device/parallel_for.h"
#include "tensor/tensor.h"

// How CPU workers compute with bf16: an operator reads a piece of a tensor, small enough for a core's own cache,
// widened to f32, computes with the kernels of f32, and rounds what it writes. It reads and writes f32 tensors where
// they lie.

namespace dptrain::ops::cpu {

/// Elements of a piece, where an operator has no unit of its own: 16 KB of f32.
inline constexpr int64_t kPieceElements = 4096;

/// Rows of a tensor's storage: `count` rows of `width` elements, `stride` apart, the first of them at `at`.
struct StorageRows {
  int64_t at, count, width, stride;
};

/// Pieces of tensors as f32, for one thread. A piece of an f32 tensor is the tensor's memory itself; one of a bf16
/// tensor is a copy, which is widened when it is read, and rounded to where it belongs when this object ends.
class Pieces {
 public:
  /// The copies lie in `room`, one after the other.
  explicit Pieces(std::span<float> room) : room_(room) {}
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;
  ~Pieces();

  /// `count` elements of the tensor's storage from `at` on: to be read, to be written as a whole, or both. Null where
  /// the tensor is undefined.
  const float* read(const Tensor& x, int64_t at, int64_t count) { return read(x, {at, 1, count, count}); }
  float* write(const Tensor& y, int64_t at, int64_t count) { return write(y, {at, 1, count, count}); }
  float* update(const Tensor& y, int64_t at, int64_t count);

  /// Rows, which are `stride_of` apart in the piece.
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

/// Room for the pieces of each of a device's threads: so many floats for tensors like this one, if it isn't f32. Taken
/// before the threads begin: where there is no memory left, the exception couldn't leave them.
class PieceRoom {
 public:
  PieceRoom(const Tensor& like, int64_t floats);
  std::span<float> of(int64_t part) const;

 private:
  int64_t floats_;
  Tensor memory_;
};

/// Calls body(i, pieces) for every i in [0, count), shared out over the device's threads, with room for `floats` of
/// tensors like this one.
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

/// Calls body(at, count, pieces) for parts of the tensor's storage, shared out over the device's threads, with room for
/// so many operands of `count` elements.
template <class Body>
void for_each_piece(const Tensor& like, int64_t operands, const Body& body) {
  // Elements below which another thread costs more than it brings.
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
