// An operator never copies between devices by itself. It refuses tensors of two devices and names both, and devices
// that aren't involved allocate no memory.

#include "ops/activation.h"
#include "ops/add.h"
#include "ops/add_padded.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/reorder.h"
#include "ops/sgd.h"
#include "support/expect_error.h"
#include "support/test_device.h"

namespace dptrain {
namespace two_devices_test {

using namespace testing;

class TwoDevices : public ::testing::Test {
 protected:
  Tensor here(const Shape& shape, DType dtype = DType::f32) const {
    return Tensor::zeros(*here_, shape, {.dtype = dtype});
  }
  Tensor there(const Shape& shape, DType dtype = DType::f32) const {
    return Tensor::zeros(*there_, shape, {.dtype = dtype});
  }
  template <class Call>
  void expect_refused(const char* op, const Call& call) const {
    SCOPED_TRACE(op);
    expect_error(ExitCode::bug, {op, "cpu:0 (rank 0)", "cpu:1 (rank 1)", "copy one of them first"}, call);
  }

  std::unique_ptr<Device> here_ = test_device(1, 0, 0), there_ = test_device(1, 1, 1);
};

TEST_F(TwoDevices, AreRefusedByLayers) {
  const Tensor x = here({1, 3, 4, 4}), w = here({2, 3, 3, 3}), y = here({1, 2, 2, 2});
  expect_refused("conv2d", [&] { ops::conv2d_forward(x, there({2, 3, 3, 3}), {}, {}); });
  expect_refused("conv2d", [&] { ops::conv2d_forward(x, w, there({2}), {}); });
  expect_refused("conv2d backward", [&] { ops::conv2d_backward_data(x, w, there({1, 2, 2, 2}), {}); });
  expect_refused("conv2d backward", [&] {
    ops::conv2d_backward_weights(x, y, {.weight = there({2, 3, 3, 3}), .bias = {}}, {});
  });
  expect_refused("conv2d backward", [&] { ops::conv2d_backward_weights(x, y, {.weight = w, .bias = there({2})}, {}); });
  expect_refused("linear", [&] { ops::linear_forward(here({1, 3}), there({2, 3}), {}); });
  expect_refused("linear backward", [&] { ops::linear_backward_data(here({2, 3}), there({1, 2})); });
  expect_refused("linear backward", [&] {
    ops::linear_backward_weights(here({1, 3}), here({1, 2}), {.weight = there({2, 3}), .bias = {}});
  });
  const auto pooled = ops::pool2d_forward(x, ops::Pooling::max, {});
  expect_refused("pool2d backward", [&] {
    ops::pool2d_backward(x, pooled.workspace, there({1, 3, 2, 2}), ops::Pooling::max, {});
  });
  expect_refused("global_average_pool backward", [&] { ops::global_average_pool_backward(x, there({1, 3})); });
}

TEST_F(TwoDevices, AreRefusedByBatchNorm) {
  ops::BatchNormInputs in{.x = here({1, 3, 4, 4}),
                          .gamma = here({3}),
                          .beta = here({3}),
                          .running_mean = here({3}),
                          .running_variance = here({3}),
                          .residual = {}};
  const auto forward = ops::batch_norm_training(in, {});
  const auto sinks = ops::BatchNormSinks::of(in);
  expect_refused("batch_norm backward", [&] { ops::batch_norm_backward(in, forward, there({1, 3, 4, 4}), sinks, {}); });
  auto elsewhere = forward;
  elsewhere.mean = there({3});
  expect_refused("batch_norm backward", [&] {
    ops::batch_norm_backward(in, elsewhere, here({1, 3, 4, 4}), sinks, {});
  });
  in.residual = there({1, 3, 4, 4});
  expect_refused("batch_norm", [&] { ops::batch_norm_evaluation(in, {}); });
  in.running_mean = there({3});
  expect_refused("batch_norm", [&] { ops::batch_norm_training(in, {}); });
}

TEST_F(TwoDevices, AreRefusedByLayerNorm) {
  const ops::LayerNormInputs in{.x = here({2, 3}), .residual = {}, .gamma = here({3}), .beta = here({3})};
  const auto forward = ops::layer_norm_forward(in, 1e-5f);
  const ops::LayerNormParameterGradients gradients{.gamma = here({3}), .beta = here({3})};
  expect_refused("layer_norm backward", [&] { ops::layer_norm_backward(forward, in.gamma, there({2, 3}), gradients); });
  auto elsewhere = in;
  elsewhere.residual = there({2, 3});
  expect_refused("layer_norm", [&] { ops::layer_norm_forward(elsewhere, 1e-5f); });
}

TEST_F(TwoDevices, AreRefusedByAttention) {
  ops::AttentionInputs in{.query = here({1, 2, 4}), .key = here({1, 2, 4}), .value = here({1, 2, 4})};
  const auto forward = ops::attention_forward(in, {.heads = 2});
  expect_refused("attention backward", [&] { ops::attention_backward(in, forward, there({1, 2, 4}), {.heads = 2}); });
  in.lengths = there({1}, DType::i32);
  expect_refused("attention", [&] { ops::attention_forward(in, {.heads = 2}); });
}

TEST_F(TwoDevices, AreRefusedByEverythingElse) {
  expect_refused("add", [&] { ops::add(here({3}), there({3})); });
  expect_refused("add", [&] { ops::add_into(here({3}), there({3})); });
  expect_refused("relu backward", [&] { ops::activation_backward(ops::kRelu, here({3}), there({3})); });
  expect_refused("reduce backward", [&] { ops::reduce_backward(here({3}), there({1}), ops::Reduction::sum); });
  expect_refused("reorder", [&] { ops::reorder_into(here({3}), there({3})); });
  expect_refused("sgd", [&] { ops::sgd_step(here({3}), here({3}), there({3}), {}); });
  const Tensor logits = here({1, 2}), labels = there({1}, DType::i32);
  expect_refused("cross_entropy", [&] { ops::cross_entropy_forward(logits, labels); });
  expect_refused("cross_entropy backward", [&] { ops::cross_entropy_backward(logits, labels, {}); });
  expect_refused("correct_samples", [&] { ops::correct_samples(logits, labels); });
  expect_refused("gelu backward", [&] { ops::activation_backward(ops::kGelu, here({3}), there({3})); });
  expect_refused("tanh backward", [&] { ops::activation_backward(ops::kTanh, here({3}), there({3})); });
  expect_refused("add_padded", [&] { ops::add_padded(here({1, 3, 1, 1}), there({1, 2, 1, 1})); });
  expect_refused("embedding", [&] { ops::embedding_forward(here({1, 2}), labels); });
  expect_refused("embedding backward", [&] { ops::embedding_backward(labels, here({1, 2}), here({1, 2}), {}); });
  const Tensor mask = here({1, 2}, DType::u8);
  expect_refused("dropout backward", [&] { ops::dropout_backward(mask, there({1, 2}), 0.5f); });
}

TEST_F(TwoDevices, ComputingOnOneTakesNothingOfTheOther) {
  const Tensor x = here({2, 16, 6, 6}), w = here({16, 16, 3, 3});
  const Tensor y = ops::conv2d_forward(x, w, here({16}), {.padding = 1});
  ops::conv2d_backward_weights(x, y, {.weight = w, .bias = here({16}), .accumulate_weight = true}, {.padding = 1});
  ops::pool2d_forward(y, ops::Pooling::max, {});
  ops::activation_forward(ops::kRelu, y);
  EXPECT_GT(here_->allocator().peak_bytes(), 0);
  EXPECT_EQ(there_->allocator().peak_bytes(), 0);
}

}  // namespace two_devices_test
}  // namespace dptrain
