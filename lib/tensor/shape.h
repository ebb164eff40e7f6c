#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace dptrain {

/// The logical dimensions of a tensor, at most six. Images are [N, C, H, W] whatever their layout in memory.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dimensions);
  explicit Shape(std::span<const int64_t> dimensions);

  int rank() const { return rank_; }
  /// Dimension `i`; a negative one counts from the end.
  int64_t operator[](int i) const { return dimensions_[static_cast<size_t>(i < 0 ? i + rank_ : i)]; }
  int64_t elements() const;
  std::span<const int64_t> dimensions() const { return {dimensions_.data(), static_cast<size_t>(rank_)}; }
  /// The same shape with dimension 0 replaced: a part of the samples.
  Shape with_first(int64_t size) const;
  /// The shape as text: "[64, 20, 24, 24]".
  std::string text() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxRank> dimensions_{};
  int rank_ = 0;
};

}  // namespace dptrain
