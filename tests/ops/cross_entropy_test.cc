// Softmax and cross-entropy against PyTorch, and their results for logits that overflow an exponential.

#include "ops/cross_entropy.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/pytorch_cases.h"
#include "support/expect_error.h"
#include "support/not_a_number.h"
#include "support/test_device.h"

namespace dptrain {
namespace cross_entropy_test {

using namespace testing;

class CrossEntropy : public ::testing::TestWithParam<PyTorchCase> {
 protected:
  const nlohmann::json& values_ = GetParam().values;
  std::unique_ptr<Device> device_ = GetParam().row.open();
  Shape shape_ = GetParam().shape("logits");
  Tensor logits_ = formula_tensor(*device_, shape_, {.tensor = kX, .scale = values_["scale"]});
  Tensor labels_ = labels_on(*device_, labels());

 private:
  std::vector<int32_t> labels() const {
    std::vector<int32_t> result;
    for (int64_t n = 0; n < shape_[0]; ++n)
      result.push_back(static_cast<int32_t>(formula_word(11, kLabels, n) % static_cast<uint64_t>(shape_[1])));
    return result;
  }
};

TEST_P(CrossEntropy, LossesAreDoubles) {
  const Tensor losses = ops::cross_entropy_forward(logits_, labels_);
  ASSERT_EQ(losses.dtype(), DType::f64);
  const auto expected = values_["losses"]["values"].get<std::vector<double>>();
  ASSERT_EQ(losses.elements(), static_cast<int64_t>(expected.size()));
  // Eight digits are stored; they were computed with full precision.
  for (size_t n = 0; n < expected.size(); ++n)
    EXPECT_NEAR(stored_values<double>(losses)[n], expected[n], 1e-7 * std::abs(expected[n]));
}

TEST_P(CrossEntropy, Backward) {
  expect_pytorch(values_["dlogits"], ops::cross_entropy_backward(logits_, labels_, {.scale = 1.0 / 7}),
                 GetParam().row.tolerance);
}

TEST_P(CrossEntropy, CountsCorrectSamples) {
  const auto correct = integers_of(ops::correct_samples(logits_, labels_));
  EXPECT_EQ(std::accumulate(correct.begin(), correct.end(), int64_t{0}), values_["correct"].get<int64_t>());
}

INSTANTIATE_TEST_SUITE_P(PyTorch, CrossEntropy, ::testing::ValuesIn(pytorch_cases("cross_entropy")), CaseName());

class CrossEntropyOnDevice : public ::testing::TestWithParam<DeviceRow> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(CrossEntropyOnDevice, StaysFiniteAtTheEndsOfFloat) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Tensor logits = tensor_of(*device_, {3, 2}, {kLargest, -kLargest, 1000, 1000, -1000, -1000});
  const Tensor labels = labels_on(*device_, {0, 1, 0});
  const Tensor losses = ops::cross_entropy_forward(logits, labels);
  EXPECT_EQ(stored_values<double>(losses)[0], 0);
  EXPECT_DOUBLE_EQ(stored_values<double>(losses)[1], std::log(2.0));
  EXPECT_DOUBLE_EQ(stored_values<double>(losses)[2], std::log(2.0));
  EXPECT_EQ(values_of(ops::cross_entropy_backward(logits, labels, {})),
            (std::vector<float>{0, 0, 0.5, -0.5, -0.5, 0.5}));
}

TEST_P(CrossEntropyOnDevice, ANaNIsOneInItsSamplesLossAndGradient) {
  constexpr size_t kClasses = 50;
  for (const float nan : kNaNs) {
    SCOPED_TRACE(std::bit_cast<uint32_t>(nan));
    std::vector<float> values = Formula{.scale = 3}.values(2 * kClasses);
    values[kClasses + 17] = nan;
    const Tensor logits = tensor_of(*device_, {2, kClasses}, values), labels = labels_on(*device_, {3, 4});
    const auto losses = stored_values<double>(ops::cross_entropy_forward(logits, labels));
    const std::vector<float> gradient = values_of(ops::cross_entropy_backward(logits, labels, {}));
    EXPECT_FALSE(std::isnan(losses[0]));
    EXPECT_TRUE(std::isnan(losses[1]));
    for (size_t i = 0; i < 2 * kClasses; ++i) EXPECT_EQ(std::isnan(gradient[i]), i >= kClasses) << i;
  }
}

TEST_P(CrossEntropyOnDevice, KeepsDigitsOfALossNearZero) {
  // log(1 + exp(-30)) is 9.4e-14, far below the rounding of float32 and well above that of a double.
  const Tensor logits = tensor_of(*device_, {1, 2}, {30, 0});
  const Tensor losses = ops::cross_entropy_forward(logits, labels_on(*device_, {0}));
  EXPECT_NEAR(stored_values<double>(losses)[0], std::exp(-30.0), 1e-2 * std::exp(-30.0));
}

TEST_P(CrossEntropyOnDevice, TheFirstOfEqualLogitsCounts) {
  const Tensor logits = tensor_of(*device_, {3, 3}, {1, 1, 0, 1, 1, 0, 0, 2, 2});
  EXPECT_EQ(integers_of(ops::correct_samples(logits, labels_on(*device_, {0, 1, 1}))), (std::vector<int32_t>{1, 0, 1}));
  // The classes of a vocabulary, which several warps of a GPU share.
  constexpr size_t kClasses = 1500;
  std::vector<float> values(3 * kClasses, 0.5f);
  for (const size_t k : {size_t{1499}, size_t{300}, size_t{41}}) values[kClasses + k] = values[2 * kClasses + k] = 2;
  const Tensor many = tensor_of(*device_, {3, kClasses}, values);
  EXPECT_EQ(integers_of(ops::correct_samples(many, labels_on(*device_, {0, 41, 300}))),
            (std::vector<int32_t>{1, 1, 0}));
}

TEST_P(CrossEntropyOnDevice, IgnoresSamplesOfNegativeLabels) {
  const std::vector<float> values = Formula{.scale = 3}.values(4 * 7);
  const Tensor logits = tensor_of(*device_, {4, 7}, values), labels = labels_on(*device_, {2, -100, 0, -1});
  // As without these rows: the others alone, in the rows of a batch of two.
  std::vector<float> others(values.begin(), values.begin() + 7);
  others.insert(others.end(), values.begin() + 14, values.begin() + 21);
  const Tensor fewer = tensor_of(*device_, {2, 7}, others), their_labels = labels_on(*device_, {2, 0});
  const ops::CrossEntropyOptions options{.scale = 0.5, .label_smoothing = 0.1};
  const auto losses = stored_values<double>(ops::cross_entropy_forward(logits, labels, options));
  const auto expected = stored_values<double>(ops::cross_entropy_forward(fewer, their_labels, options));
  EXPECT_EQ(losses, (std::vector<double>{expected[0], 0, expected[1], 0}));
  const auto gradient = values_of(ops::cross_entropy_backward(logits, labels, options));
  const auto of_fewer = values_of(ops::cross_entropy_backward(fewer, their_labels, options));
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(gradient[i], of_fewer[i]);
    EXPECT_EQ(gradient[7 + i], 0);
    EXPECT_EQ(gradient[14 + i], of_fewer[7 + i]);
    EXPECT_EQ(gradient[21 + i], 0);
  }
  const Tensor equal = Tensor::zeros(*device_, {3, 2});
  EXPECT_EQ(integers_of(ops::correct_samples(equal, labels_on(*device_, {-100, 0, -1}))),
            (std::vector<int32_t>{0, 1, 0}));
}

class CrossEntropyOfClasses : public ::testing::TestWithParam<std::tuple<DeviceRow, int64_t>> {
 protected:
  std::unique_ptr<Device> device_ = std::get<0>(GetParam()).open();
  int64_t classes_ = std::get<1>(GetParam());
};

TEST_P(CrossEntropyOfClasses, SmoothingSpreadsTheTarget) {
  constexpr double kSmoothing = 0.1, kScale = 1.0 / 3;
  const auto classes = static_cast<size_t>(classes_);
  const std::vector<float> values = Formula{.scale = 4}.values(3 * classes_);
  const std::vector<int32_t> labels = {49, 7, -1};
  const Tensor logits = tensor_of(*device_, {3, classes_}, values);
  const ops::CrossEntropyOptions options{.scale = kScale, .label_smoothing = kSmoothing};
  const auto losses = stored_values<double>(ops::cross_entropy_forward(logits, labels_on(*device_, labels), options));
  const auto gradient = values_of(ops::cross_entropy_backward(logits, labels_on(*device_, labels), options));
  for (size_t n = 0; n < 2; ++n) {
    const float* row = values.data() + n * classes;
    double sum = 0, loss = 0;
    for (size_t k = 0; k < classes; ++k) sum += std::exp(double{row[k]});
    for (size_t k = 0; k < classes; ++k) {
      const bool is_label = static_cast<int32_t>(k) == labels[n];
      const double target = kSmoothing / static_cast<double>(classes) + (is_label ? 1 - kSmoothing : 0);
      loss -= target * std::log(std::exp(double{row[k]}) / sum);
      EXPECT_NEAR(gradient[n * classes + k], kScale * (std::exp(double{row[k]}) / sum - target), 1e-7);
    }
    EXPECT_NEAR(losses[n], loss, 1e-11);
  }
  EXPECT_EQ(losses[2], 0);
  EXPECT_EQ(std::vector<float>(gradient.begin() + static_cast<int64_t>(2 * classes), gradient.end()),
            std::vector<float>(classes, 0));
}

TEST_P(CrossEntropyOnDevice, RefusesToSmoothEverything) {
  const Tensor logits = Tensor::zeros(*device_, {1, 2});
  expect_error(ExitCode::bug, {"cross_entropy", "label smoothing", "1"},
               [&] { ops::cross_entropy_forward(logits, labels_on(*device_, {0}), {.label_smoothing = 1}); });
}

TEST_P(CrossEntropyOnDevice, RefusesLabelsOfAnotherBatch) {
  const Tensor logits = Tensor::zeros(*device_, {3, 10});
  expect_error(ExitCode::bug, {"cross_entropy", "f32 [3, 10]", "i32 [2]"}, [&] {
    ops::cross_entropy_forward(logits, labels_on(*device_, {0, 1}));
  });
  expect_error(ExitCode::bug, {"correct_samples"}, [&] { ops::correct_samples(logits, labels_on(*device_, {0, 1})); });
}

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyOnDevice, ::testing::ValuesIn(device_rows()), RowName());
INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyOfClasses,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::Values(50, 1500)),
                         [](const auto& row) {
                           return std::get<0>(row.param).name + "_" + std::to_string(std::get<1>(row.param));
                         });

}  // namespace cross_entropy_test
}  // namespace dptrain
