// A rank may have no samples. Then its outputs are empty, its gradients of weights are zero (or unchanged where
// gradients are added), and its running statistics don't change.

#include "ops/activation.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace empty_batch_test {

using namespace testing;

class EmptyBatch : public ::testing::TestWithParam<DeviceRow> {
 protected:
  Tensor empty(const Shape& shape, Layout layout = Layout::plain) const {
    return Tensor::empty(*device_, shape, {.layout = layout});
  }
  Tensor sevens(const Shape& shape) const {
    return tensor_of(*device_, shape, std::vector<float>(static_cast<size_t>(shape.elements()), 7.f));
  }
  static void expect_all(const Tensor& tensor, float value) {
    EXPECT_EQ(values_of(tensor), std::vector<float>(static_cast<size_t>(tensor.elements()), value));
  }
  std::unique_ptr<Device> device_ = GetParam().open();
};

TEST_P(EmptyBatch, OfConvolutions) {
  for (const Layout layout : GetParam().image_layouts) {
    const Tensor images = empty({0, 16, 5, 5}, layout), by = sevens({16, 16, 3, 3});
    const Tensor gradient = ops::conv2d_backward_data(images, by, empty({0, 16, 5, 5}), {.padding = 1});
    EXPECT_EQ(gradient.layout(), layout);
  }
  const Tensor x = empty({0, 16, 5, 5}), weight = sevens({16, 16, 3, 3}), bias = sevens({16});
  const Tensor y = ops::conv2d_forward(x, weight, bias, {.padding = 1});
  EXPECT_EQ(y.shape(), (Shape{0, 16, 5, 5}));
  EXPECT_EQ(ops::conv2d_backward_data(x, weight, y, {.padding = 1}).shape(), x.shape());
  ops::conv2d_backward_weights(x, y, {.weight = weight, .bias = bias, .accumulate_weight = true}, {.padding = 1});
  expect_all(weight, 7);
  expect_all(bias, 0);
}

TEST_P(EmptyBatch, OfLinearLayers) {
  const Tensor x = empty({0, 5}), weight = sevens({3, 5}), bias = sevens({3});
  const Tensor y = ops::linear_forward(x, weight, bias);
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
  EXPECT_EQ(ops::linear_backward_data(weight, y).shape(), x.shape());
  ops::linear_backward_weights(x, y, {.weight = weight, .bias = bias, .accumulate_bias = true});
  expect_all(weight, 0);
  expect_all(bias, 7);
  for (const bool accumulate : {true, false}) {
    ops::linear_backward_bias(y, bias, accumulate);
    expect_all(bias, accumulate ? 7 : 0);
  }
}

TEST_P(EmptyBatch, OfPoolsAndElementwiseOperators) {
  for (const Layout layout : GetParam().image_layouts) {
    const Tensor x = empty({0, 20, 4, 4}, layout);
    const auto pooled = ops::pool2d_forward(x, ops::Pooling::max, {});
    EXPECT_EQ(ops::pool2d_backward(x, pooled.workspace, pooled.y, ops::Pooling::max, {}).shape(), x.shape());
    EXPECT_EQ(ops::global_average_pool_forward(x).shape(), (Shape{0, 20}));
    EXPECT_EQ(ops::activation_forward(ops::kRelu, x).shape(), x.shape());
    EXPECT_EQ(ops::activation_forward(ops::kGelu, x).shape(), x.shape());
    EXPECT_EQ(ops::activation_backward(ops::kTanh, x, x).shape(), x.shape());
    EXPECT_EQ(ops::reorder(x, Layout::plain).shape(), x.shape());
    EXPECT_EQ(
        ops::dropout_forward(x, 0.5f, {.epoch = epoch_on(*device_, 1), .sample_ids = sample_ids_on(*device_, 0, 0)})
            .y.shape(),
        x.shape());
  }
}

TEST_P(EmptyBatch, OfLosses) {
  const Tensor logits = empty({0, 10}), labels = labels_on(*device_, {});
  EXPECT_EQ(ops::cross_entropy_forward(logits, labels).elements(), 0);
  EXPECT_EQ(ops::cross_entropy_backward(logits, labels, {}).shape(), logits.shape());
  EXPECT_EQ(ops::correct_samples(logits, labels).elements(), 0);
}

TEST_P(EmptyBatch, OfBatchNorms) {
  for (const Layout layout : GetParam().image_layouts) {
    const ops::BatchNormInputs in{.x = empty({0, 20, 4, 4}, layout),
                                  .gamma = sevens({20}),
                                  .beta = sevens({20}),
                                  .running_mean = sevens({20}),
                                  .running_variance = sevens({20}),
                                  .residual = empty({0, 20, 4, 4}, layout)};
    const auto forward = ops::batch_norm_training(in, {.relu = true});
    EXPECT_EQ(forward.y.shape(), in.x.shape());
    expect_all(in.running_mean, 7);
    expect_all(in.running_variance, 7);
    const ops::BatchNormSinks sinks{.gamma = sevens({20}), .beta = sevens({20})};
    const auto gradients = ops::batch_norm_backward(in, forward, forward.y, sinks, {.relu = true});
    EXPECT_EQ(gradients.x.shape(), in.x.shape());
    expect_all(sinks.gamma, 0);
    expect_all(sinks.beta, 0);
    EXPECT_EQ(ops::batch_norm_evaluation(in, {}).shape(), in.x.shape());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EmptyBatch, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace empty_batch_test
}  // namespace dptrain
