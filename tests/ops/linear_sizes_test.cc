// Linear layers of all sizes and shares: deeper and taller than what is multiplied at once, and with more threads than
// a side has columns. The numbers are whole, so that every sum is exact, and a number that is left out or counted twice
// shows.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/linear.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace linear_sizes_test {

using namespace testing;

struct Sizes {
  int64_t samples, in, out;

  std::string name() const { return fmt::format("{}x{}_to_{}", samples, in, out); }
  friend std::ostream& operator<<(std::ostream& stream, const Sizes& sizes) { return stream << sizes.name(); }
};

class LinearSizes : public ::testing::TestWithParam<Sizes> {
 protected:
  /// Whole numbers from -3 to 3.
  static std::vector<float> numbers(int64_t count, uint32_t seed) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>(seed >> 16) % 7 - 3);
    }
    return values;
  }
  /// The sum over i of a(i) * b(i).
  template <class A, class B>
  static float dot(int64_t count, const A& a, const B& b) {
    float sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += a(i) * b(i);
    return sum;
  }
  static constexpr auto kAt = [](const std::vector<float>& values, int64_t row, int64_t width, int64_t column) {
    return values[static_cast<size_t>(row * width + column)];
  };

  const int64_t n_ = GetParam().samples, in_ = GetParam().in, out_ = GetParam().out;
  const std::vector<float> x_ = numbers(n_ * in_, 1), weight_ = numbers(out_ * in_, 2), bias_ = numbers(out_, 3),
                           incoming_ = numbers(n_ * out_, 4);
};

TEST_P(LinearSizes, ForwardWithBiasAndRelu) {
  for (const int threads : {1, 2, 3, 4, 8}) {
    const auto device = test_device(threads);
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(fmt::format("{} threads, relu {}", threads, relu));
      const std::vector<float> y =
          values_of(ops::linear_forward(tensor_of(*device, {n_, in_}, x_), tensor_of(*device, {out_, in_}, weight_),
                                        tensor_of(*device, {out_}, bias_), relu));
      for (int64_t r = 0; r < n_; ++r)
        for (int64_t c = 0; c < out_; ++c) {
          const float sum = bias_[static_cast<size_t>(c)] + dot(
                                                                in_, [&](int64_t i) { return kAt(x_, r, in_, i); },
                                                                [&](int64_t i) { return kAt(weight_, c, in_, i); });
          ASSERT_EQ(kAt(y, r, out_, c), relu ? std::max(0.f, sum) : sum) << r << ", " << c;
        }
    }
  }
}

TEST_P(LinearSizes, BackwardData) {
  for (const int threads : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(threads);
    const auto device = test_device(threads);
    const std::vector<float> dx = values_of(
        ops::linear_backward_data(tensor_of(*device, {out_, in_}, weight_), tensor_of(*device, {n_, out_}, incoming_)));
    for (int64_t r = 0; r < n_; ++r)
      for (int64_t c = 0; c < in_; ++c)
        ASSERT_EQ(kAt(dx, r, in_, c), dot(
                                          out_, [&](int64_t i) { return kAt(incoming_, r, out_, i); },
                                          [&](int64_t i) { return kAt(weight_, i, in_, c); }))
            << r << ", " << c;
  }
}

TEST_P(LinearSizes, BackwardWeightsAndBiasWriteOrAdd) {
  for (const int threads : {1, 2, 3, 4, 8})
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(fmt::format("{} threads, {}", threads, accumulate ? "added" : "written"));
      const auto device = test_device(threads);
      const float before = accumulate ? 5.f : 0.f;
      const ops::LinearWeightGradients gradients{
          .weight = tensor_of(*device, {out_, in_}, std::vector<float>(weight_.size(), 5)),
          .bias = tensor_of(*device, {out_}, std::vector<float>(bias_.size(), 5)),
          .accumulate_weight = accumulate,
          .accumulate_bias = accumulate};
      ops::linear_backward_weights(tensor_of(*device, {n_, in_}, x_), tensor_of(*device, {n_, out_}, incoming_),
                                   gradients);
      const std::vector<float> of_weight = values_of(gradients.weight), of_bias = values_of(gradients.bias);
      for (int64_t r = 0; r < out_; ++r) {
        const auto incoming = [&](int64_t i) { return kAt(incoming_, i, out_, r); };
        ASSERT_EQ(of_bias[static_cast<size_t>(r)], before + dot(n_, incoming, [](int64_t) { return 1.f; })) << r;
        for (int64_t c = 0; c < in_; ++c)
          ASSERT_EQ(kAt(of_weight, r, in_, c),
                    before + dot(n_, incoming, [&](int64_t i) { return kAt(x_, i, in_, c); }))
              << r << ", " << c;
      }
    }
}

// More than 256 deep in each pass, taller than 768 rows in each, and narrower than the threads' shares.
INSTANTIATE_TEST_SUITE_P(Sizes, LinearSizes,
                         ::testing::Values(Sizes{5, 257, 3}, Sizes{800, 300, 37}, Sizes{520, 33, 800}, Sizes{1, 800, 1},
                                           Sizes{263, 7, 130}, Sizes{40, 790, 290}, Sizes{2, 1, 1000}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace linear_sizes_test
}  // namespace dptrain
