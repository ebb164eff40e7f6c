#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

namespace dptrain {

Shape::Shape(std::initializer_list<int64_t> dimensions) : Shape(std::span(dimensions.begin(), dimensions.size())) {}

Shape::Shape(std::span<const int64_t> dimensions) : rank_(static_cast<int>(dimensions.size())) {
  DPTRAIN_CHECK(rank_ <= kMaxRank, "a shape of {} dimensions, at most {}", rank_, kMaxRank);
  std::ranges::copy(dimensions, dimensions_.begin());
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const int64_t size : dimensions()) product *= size;
  return product;
}

Shape Shape::with_first(int64_t size) const {
  Shape result = *this;
  result.dimensions_[0] = size;
  return result;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(dimensions(), ", ")); }

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dimensions(), b.dimensions()); }

}  // namespace dptrain
