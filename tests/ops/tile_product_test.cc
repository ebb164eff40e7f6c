// Products of bf16 matrices by every unit that this processor has, whether or not the operators choose it, against sums
// of the same numbers in double.

#include "ops/tile_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/cpu_amx.h"
#include "support/formula_values.h"
#include "tensor/half_precision.h"

namespace dptrain {
namespace tile_product_test {

using namespace testing;
using ops::TileKernels;
using ops::TileSource;

struct Product {
  int64_t rows, columns, depth;
  bool across;  ///< whether the factors' depth runs across memory
};

class TileProduct : public ::testing::TestWithParam<std::tuple<Bf16Unit, Product>> {
 protected:
  void SetUp() override {
    const bool there = unit_ == Bf16Unit::amx ? cpu_has_amx() : cpu_has_bf16_pairs();
    if (!there) GTEST_SKIP() << "this processor has no " << (unit_ == Bf16Unit::amx ? "AMX" : "AVX-512 of bf16");
  }

  /// A factor of `count` rows or columns whose rows in memory are longer than the used part.
  struct Factor {
    Factor(int64_t count, int64_t depth, bool is_across, uint64_t number)
        : across(is_across), stride((is_across ? count : depth) + 3) {
      const auto size = static_cast<uint64_t>((is_across ? depth : count) * stride);
      for (uint64_t i = 0; i < size; ++i)
        numbers.push_back(rounded_to<Bfloat16>(static_cast<float>(formula_uniform(1, number, i))));
      source = {.bf16 = numbers.data(), .count = count, .depth = depth, .stride = stride, .across = is_across};
    }
    double at(int64_t i, int64_t k) const {
      return widened(numbers[static_cast<size_t>(across ? k * stride + i : i * stride + k)]);
    }
    std::vector<Bfloat16> numbers;
    bool across;
    int64_t stride;
    TileSource source;
  };

  std::vector<Bfloat16> packed(const Factor& factor, void (*pack)(const TileSource&, int, Bfloat16*)) const {
    std::vector<Bfloat16> memory(static_cast<size_t>(kernels_.packed(factor.source.count, factor.source.depth, 1)));
    pack(factor.source, 1, memory.data());
    return memory;
  }

  double sum(int64_t row, int64_t column) const {
    double total = 0;
    for (int64_t k = 0; k < p_.depth; ++k) total += left_.at(row, k) * right_.at(column, k);
    return total;
  }

  const Bf16Unit unit_ = std::get<0>(GetParam());
  const Product p_ = std::get<1>(GetParam());
  const TileKernels& kernels_ = *ops::tile_kernels(unit_);
  Factor left_{p_.rows, p_.depth, p_.across, 1}, right_{p_.columns, p_.depth, p_.across, 2};
  /// The error of sums of about a hundred terms below 1 in f32.
  static constexpr double kSums = 1e-4;
};

TEST_P(TileProduct, IsTheSumOfItsTerms) {
  const auto left = packed(left_, kernels_.pack_left), right = packed(right_, kernels_.pack_right);
  const int64_t stride = p_.columns + 5;
  for (const bool accumulate : {false, true}) {
    const float before = 0.25f, outside = 7.f;
    std::vector<float> y(static_cast<size_t>(p_.rows * stride), outside);
    for (int64_t row = 0; row < p_.rows; ++row) std::fill_n(y.begin() + row * stride, p_.columns, before);
    kernels_.multiply({.rows = p_.rows,
                       .columns = p_.columns,
                       .depth = p_.depth,
                       .pieces = 1,
                       .left = left.data(),
                       .right = right.data(),
                       .accumulate = accumulate,
                       .y = y.data(),
                       .y_stride = stride});
    for (int64_t row = 0; row < p_.rows; ++row)
      for (int64_t column = 0; column < stride; ++column) {
        const float got = y[static_cast<size_t>(row * stride + column)];
        if (column < p_.columns)
          ASSERT_NEAR(got, sum(row, column) + (accumulate ? before : 0.), kSums) << row << ", " << column;
        else
          ASSERT_EQ(got, outside) << row << ", " << column;
      }
  }
}

TEST_P(TileProduct, IsRoundedOnceWithBiasAndRelu) {
  const auto left = packed(left_, kernels_.pack_left), right = packed(right_, kernels_.pack_right);
  const std::vector<float> bias = formula_images(3, p_.columns);
  std::vector<Bfloat16> y(static_cast<size_t>(p_.rows * p_.columns));
  kernels_.multiply({.rows = p_.rows,
                     .columns = p_.columns,
                     .depth = p_.depth,
                     .pieces = 1,
                     .left = left.data(),
                     .right = right.data(),
                     .bias = bias.data(),
                     .relu = true,
                     .rounded = y.data(),
                     .y_stride = p_.columns});
  for (int64_t row = 0; row < p_.rows; ++row)
    for (int64_t column = 0; column < p_.columns; ++column) {
      const double right_one = std::max(0., sum(row, column) + bias[static_cast<size_t>(column)]);
      ASSERT_NEAR(widened(y[static_cast<size_t>(row * p_.columns + column)]), right_one,
                  kSums + 0x1p-8 * std::abs(right_one))
          << row << ", " << column;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, TileProduct,
    ::testing::Combine(::testing::Values(Bf16Unit::avx512, Bf16Unit::amx),
                       // Full and partial blocks of 32 and 16, and depths of full and partial pairs.
                       ::testing::Values(Product{64, 64, 64, false}, Product{64, 64, 64, true}, Product{1, 1, 1, false},
                                         Product{1, 1, 1, true}, Product{33, 17, 31, false}, Product{33, 17, 31, true},
                                         Product{16, 48, 130, false}, Product{49, 10, 65, true})),
    [](const auto& test) {
      const Product& p = std::get<1>(test.param);
      return std::string(std::get<0>(test.param) == Bf16Unit::amx ? "amx" : "avx512") + "_" + std::to_string(p.rows) +
             "x" + std::to_string(p.columns) + "x" + std::to_string(p.depth) + (p.across ? "_across" : "_along");
    });

}  // namespace tile_product_test
}  // namespace dptrain
