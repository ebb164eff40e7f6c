#include "ops/f32_pieces.h"

#include "base/check.h"
#include "ops/bf16_kernels.h"

namespace dptrain::ops::cpu {

Pieces::~Pieces() {
  for (const Written& piece : std::span(written_).first(written_count_))
    for (int64_t row = 0; row < piece.rows.count; ++row)
      bf16_kernels().round(piece.from + row * piece.rows.width, piece.to + row * piece.rows.stride, piece.rows.width);
}

const float* Pieces::read(const Tensor& x, const StorageRows& rows) {
  if (!x.defined()) return nullptr;
  if (x.dtype() == DType::f32) return x.data<float>() + rows.at;
  float* piece = take(rows);
  const Bfloat16* from = x.data<Bfloat16>() + rows.at;
  for (int64_t row = 0; row < rows.count; ++row)
    bf16_kernels().widen(from + row * rows.stride, piece + row * rows.width, rows.width);
  return piece;
}

float* Pieces::write(const Tensor& y, const StorageRows& rows) {
  if (!y.defined()) return nullptr;
  if (y.dtype() == DType::f32) return y.data<float>() + rows.at;
  DPTRAIN_CHECK(written_count_ < written_.size(), "one more piece to write of {}", y.text());
  float* piece = take(rows);
  written_[written_count_++] = {.from = piece, .to = y.data<Bfloat16>() + rows.at, .rows = rows};
  return piece;
}

float* Pieces::update(const Tensor& y, int64_t at, int64_t count) {
  float* piece = write(y, at, count);
  if (y.defined() && y.dtype() != DType::f32) bf16_kernels().widen(y.data<Bfloat16>() + at, piece, count);
  return piece;
}

float* Pieces::take(const StorageRows& rows) {
  const auto floats = static_cast<size_t>(rows.count * rows.width);
  DPTRAIN_CHECK(floats <= room_.size(), "{} floats in room for {}", floats, room_.size());
  float* piece = room_.data();
  room_ = room_.subspan(floats);
  return piece;
}

PieceRoom::PieceRoom(const Tensor& like, int64_t floats) : floats_(like.dtype() == DType::f32 ? 0 : floats) {
  if (floats_ > 0)
    memory_ = Tensor::empty(like.device(), {like.device().threads() * floats_}, {.purpose = MemoryPurpose::workspace});
}

std::span<float> PieceRoom::of(int64_t part) const {
  if (floats_ == 0) return {};
  return {memory_.data<float>() + part * floats_, static_cast<size_t>(floats_)};
}

}  // namespace dptrain::ops::cpu
