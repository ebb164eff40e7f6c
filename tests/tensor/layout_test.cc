// Shapes, and how many elements each layout takes.

#include "tensor/layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/expect_error.h"
#include "tensor/dtype.h"

namespace dptrain {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape images = {64, 20, 24, 23};
  EXPECT_EQ(images.rank(), 4);
  EXPECT_EQ(images.elements(), 64 * 20 * 24 * 23);
  EXPECT_EQ(images[1], 20);
  EXPECT_EQ(images[-1], 23);
  EXPECT_EQ(images.text(), "[64, 20, 24, 23]");
  EXPECT_EQ(images.with_first(3), (Shape{3, 20, 24, 23}));
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().text(), "[]");
  EXPECT_EQ((Shape{0, 5}).elements(), 0);
}

TEST(Shape, EqualityCountsEveryDimension) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
}

TEST(Shape, HasAtMostSixDimensions) {
  EXPECT_NO_THROW(Shape(std::vector<int64_t>(6, 1)));
  testing::expect_error(ExitCode::bug, {"7 dimensions"}, [] { Shape(std::vector<int64_t>(7, 1)); });
}

TEST(Layout, PadsChannelsToWholeBlocks) {
  const Shape images = {2, 20, 3, 3};
  EXPECT_EQ(storage_elements(images, Layout::plain), 2 * 20 * 9);
  EXPECT_EQ(storage_elements(images, Layout::nhwc), 2 * 20 * 9);
  EXPECT_EQ(storage_elements(images, Layout::nchw8c), 2 * 24 * 9);
  EXPECT_EQ(storage_elements(images, Layout::nchw16c), 2 * 32 * 9);
  const Shape weights = {20, 9, 3, 3};
  EXPECT_EQ(storage_elements(weights, Layout::oihw8i8o), 24 * 16 * 9);
  EXPECT_EQ(storage_elements(weights, Layout::oihw16i16o), 32 * 16 * 9);
  EXPECT_EQ(storage_elements({2, 16, 3, 3}, Layout::nchw16c), 2 * 16 * 9);
  EXPECT_EQ(storage_elements({20}, Layout::plain), 20);
}

TEST(Layout, OfBlocksIsForImagesAndWeights) {
  testing::expect_error(ExitCode::bug, {"nchw16c", "[20]"}, [] { storage_elements({20}, Layout::nchw16c); });
}

TEST(Layout, HasNamesAndBlocks) {
  const std::vector<std::pair<Layout, std::pair<std::string_view, int>>> expected = {
      {Layout::plain, {"plain", 1}},      {Layout::nhwc, {"nhwc", 1}},         {Layout::nchw8c, {"nchw8c", 8}},
      {Layout::nchw16c, {"nchw16c", 16}}, {Layout::oihw8i8o, {"oihw8i8o", 8}}, {Layout::oihw16i16o, {"oihw16i16o", 16}},
  };
  for (const auto& [layout, known] : expected) {
    EXPECT_EQ(layout_name(layout), known.first);
    EXPECT_EQ(layout_block(layout), known.second);
  }
}

TEST(DType, HasNamesAndSizes) {
  EXPECT_EQ(dtype_bytes(DType::f32), 4);
  EXPECT_EQ(dtype_bytes(DType::f64), 8);
  EXPECT_EQ(dtype_bytes(DType::i32), 4);
  EXPECT_EQ(dtype_bytes(DType::i64), 8);
  EXPECT_EQ(dtype_bytes(DType::u8), 1);
  EXPECT_EQ(dtype_name(DType::i64), "i64");
  EXPECT_EQ(dtype_of<double>(), DType::f64);
}

}  // namespace
}  // namespace dptrain
