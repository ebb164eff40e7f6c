// Every run gives the same bits. With one, two and three threads they are also the same for forward convolutions and
// for our own kernels, such as bf16 convolutions by AMX. oneDNN's backward products and weight gradients are summed in
// an order that depends on the number of threads, so only runs with equal threads must agree.

#include <functional>

#include "device/cpu_bf16.h"
#include "ops/activation.h"
#include "ops/add.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "ops/reduce.h"
#include "ops/sgd.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"
#include "support/test_device.h"

namespace dptrain {
namespace same_bits_test {

using namespace testing;

/// A computation whose results must have the same bits, in runs with equal threads or in all runs.
struct Computation {
  std::string name;
  bool any_threads;
  std::function<std::vector<Tensor>(Device&, const std::vector<Layout>&)> run;

  friend std::ostream& operator<<(std::ostream& out, const Computation& c) { return out << c.name; }
};

ops::Conv2dOptions options_of(int64_t stride, int64_t padding, ops::ConvolutionAlgorithm algorithm) {
  return {.stride = stride, .padding = padding, .algorithm = algorithm};
}

Tensor convolution(Device& device, const Shape& x, const Shape& weight, const ops::Conv2dOptions& options) {
  return ops::conv2d_forward(formula_tensor(device, x, {.tensor = 0}), formula_tensor(device, weight, {.tensor = 1}),
                             formula_tensor(device, {weight[0]}, {.tensor = 2}), options);
}

std::vector<Tensor> convolutions(Device& device, const std::vector<Layout>&) {
  using enum ops::ConvolutionAlgorithm;
  return {convolution(device, {5, 1, 28, 28}, {20, 1, 5, 5}, {}),
          convolution(device, {5, 20, 12, 12}, {50, 20, 5, 5}, {}),
          convolution(device, {5, 64, 14, 14}, {64, 64, 3, 3}, options_of(1, 1, direct)),
          convolution(device, {5, 64, 14, 14}, {64, 64, 3, 3}, options_of(1, 1, winograd)),
          convolution(device, {1, 128, 7, 7}, {64, 128, 3, 3}, options_of(2, 1, direct)),
          convolution(device, {3, 128, 7, 7}, {128, 128, 1, 1}, options_of(1, 0, direct))};
}

/// Every bf16 pass, with sums rounded to f32 values. Without AMX oneDNN computes them.
std::vector<Tensor> convolutions_by_tiles(Device& device, const std::vector<Layout>&) {
  std::vector<Tensor> results;
  const auto bf16 = [&](const Shape& shape, uint64_t tensor) {
    return ops::converted(formula_tensor(device, shape, {.tensor = tensor}), {.dtype = DType::bf16});
  };
  const auto run = [&](const Shape& x_shape, const Shape& weight_shape, const ops::Conv2dOptions& options) {
    const Tensor x = bf16(x_shape, 0), weight = bf16(weight_shape, 1);
    const Tensor y = ops::conv2d_forward(x, weight, Tensor(), options);
    const Tensor incoming = bf16(y.shape(), 2);
    const Tensor gradient = Tensor::zeros(device, weight_shape), of_bias = Tensor::zeros(device, {weight_shape[0]});
    ops::conv2d_backward_weights(x, incoming, {.weight = gradient, .bias = of_bias}, options);
    for (const Tensor& rounded : {y, ops::conv2d_backward_data(x, weight, incoming, options)})
      results.push_back(ops::converted(rounded, {.dtype = DType::f32, .layout = rounded.layout()}));
    results.push_back(gradient);
    results.push_back(of_bias);
  };
  run({7, 1, 28, 28}, {20, 1, 5, 5}, options_of(1, 0, ops::ConvolutionAlgorithm::direct));
  run({7, 20, 12, 12}, {50, 20, 5, 5}, options_of(1, 0, ops::ConvolutionAlgorithm::direct));
  run({20, 70, 14, 14}, {64, 70, 3, 3}, options_of(1, 1, ops::ConvolutionAlgorithm::direct));
  run({7, 64, 14, 14}, {96, 64, 3, 3}, options_of(2, 1, ops::ConvolutionAlgorithm::direct));
  return results;
}

std::vector<Tensor> linear_layers(Device& device, const std::vector<Layout>&) {
  const auto forward = [&](int64_t n, int64_t in, int64_t out) {
    return ops::linear_forward(formula_tensor(device, {n, in}, {.tensor = 0}),
                               formula_tensor(device, {out, in}, {.tensor = 1}),
                               formula_tensor(device, {out}, {.tensor = 2}));
  };
  return {forward(64, 800, 128), forward(7, 128, 10), forward(1, 512, 10), forward(33, 512, 100)};
}

std::vector<Tensor> linear_layers_of_bf16(Device& device, const std::vector<Layout>&) {
  const auto bf16 = [&](const Shape& shape, uint64_t tensor) {
    return ops::converted(formula_tensor(device, shape, {.tensor = tensor}), {.dtype = DType::bf16});
  };
  std::vector<Tensor> results;
  for (const auto& [n, in, out] : {std::tuple{64, 800, 128}, std::tuple{7, 128, 10}, std::tuple{33, 1100, 100}}) {
    const Tensor x = bf16({n, in}, 0), weight = bf16({out, in}, 1), incoming = bf16({n, out}, 2);
    for (const Tensor& rounded :
         {ops::linear_forward(x, weight, bf16({out}, 3)), ops::linear_backward_data(weight, incoming)})
      results.push_back(ops::converted(rounded, {.dtype = DType::f32}));
    results.push_back(Tensor::zeros(device, {out, in}));
    ops::linear_backward_weights(x, incoming, {.weight = results.back(), .bias = {}});
  }
  return results;
}

std::vector<Tensor> batch_norms(Device& device, const std::vector<Layout>& layouts) {
  std::vector<Tensor> results;
  for (const Layout layout : layouts) {
    for (const bool residual : {false, true}) {
      const Shape shape = {7, 40, 9, 9}, channels = {40};
      const ops::BatchNormInputs in{
          .x = formula_tensor(device, shape, {.tensor = 0}, layout),
          .gamma = formula_tensor(device, channels, {.tensor = 1}),
          .beta = formula_tensor(device, channels, {.tensor = 2}),
          .running_mean = Tensor::zeros(device, channels),
          .running_variance = Tensor::zeros(device, channels),
          .residual = residual ? formula_tensor(device, shape, {.tensor = 3}, layout) : Tensor()};
      const auto forward = ops::batch_norm_training(in, {.relu = true});
      const auto sinks = ops::BatchNormSinks::of(in);
      const auto gradients = ops::batch_norm_backward(in, forward, formula_tensor(device, shape, {.tensor = 4}, layout),
                                                      sinks, {.relu = true});
      for (const Tensor& tensor : {forward.y, forward.mean, forward.inverse_deviation, in.running_mean,
                                   in.running_variance, gradients.x, sinks.gamma, sinks.beta})
        results.push_back(tensor);
      results.push_back(ops::batch_norm_evaluation(in, {}));
      if (residual) results.push_back(gradients.residual);
    }
  }
  return results;
}

std::vector<Tensor> layer_norms(Device& device, const std::vector<Layout>&) {
  const Shape rows = {101, 70}, parameter = {70};
  const ops::LayerNormInputs in{.x = formula_tensor(device, rows, {.tensor = 0}),
                                .residual = formula_tensor(device, rows, {.tensor = 1}),
                                .gamma = formula_tensor(device, parameter, {.tensor = 2}),
                                .beta = formula_tensor(device, parameter, {.tensor = 3})};
  const auto forward = ops::layer_norm_forward(in, 1e-12f);
  const ops::LayerNormParameterGradients sums{.gamma = Tensor::zeros(device, parameter),
                                              .beta = Tensor::zeros(device, parameter)};
  const auto of = ops::layer_norm_backward(forward, in.gamma, formula_tensor(device, rows, {.tensor = 4}), sums);
  return {forward.y, forward.sum, forward.mean, forward.inverse_deviation, of.x, sums.gamma, sums.beta};
}

std::vector<Tensor> embeddings(Device& device, const std::vector<Layout>&) {
  std::vector<Tensor> results;
  for (const uint64_t rows : {uint64_t{2}, uint64_t{40}}) {
    const Tensor gradient = Tensor::zeros(device, {static_cast<int64_t>(rows), 130});
    ops::embedding_backward(labels_on(device, formula_labels(1, 300, rows)), formula_tensor(device, {300, 130}, {}),
                            gradient, {});
    results.push_back(gradient);
  }
  return results;
}

std::vector<Tensor> attention(Device& device, const std::vector<Layout>&) {
  const Shape shape = {3, 37, 24};
  const ops::AttentionInputs in{.query = formula_tensor(device, shape, {.tensor = 0}),
                                .key = formula_tensor(device, shape, {.tensor = 1}),
                                .value = formula_tensor(device, shape, {.tensor = 2}),
                                .lengths = labels_on(device, {37, 20, 5})};
  const ops::AttentionOptions options{
      .heads = 3,
      .dropout = 0.2f,
      .key = {.seed = 1, .epoch = epoch_on(device, 0), .sample_ids = sample_ids_on(device, 7, 10)}};
  const auto forward = ops::attention_forward(in, options);
  const auto gradients = ops::attention_backward(in, forward, formula_tensor(device, shape, {.tensor = 3}), options);
  return {forward.y, gradients.query, gradients.key, gradients.value};
}

std::vector<Tensor> pools(Device& device, const std::vector<Layout>& layouts) {
  std::vector<Tensor> results;
  for (const Layout layout : layouts) {
    const Tensor x = formula_tensor(device, {7, 40, 10, 10}, {.tensor = 0}, layout);
    for (const ops::Pooling pooling : {ops::Pooling::max, ops::Pooling::average}) {
      const auto result = ops::pool2d_forward(x, pooling, {});
      results.push_back(result.y);
      results.push_back(ops::pool2d_backward(x, result.workspace, result.y, pooling, {}));
    }
    results.push_back(ops::global_average_pool_forward(x));
    results.push_back(ops::global_average_pool_backward(x, results.back()));
  }
  return results;
}

std::vector<Tensor> elementwise(Device& device, const std::vector<Layout>&) {
  const Shape shape = {100'001};
  const Tensor x = formula_tensor(device, shape, {.tensor = 0}), y = formula_tensor(device, shape, {.tensor = 1});
  const Tensor weights = formula_tensor(device, shape, {.tensor = 2}), velocity = Tensor::zeros(device, shape);
  ops::sgd_step(weights, x, velocity, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  return {ops::add(x, y),
          ops::activation_backward(ops::kRelu, ops::activation_forward(ops::kRelu, x), y),
          ops::activation_forward(ops::kGelu, x),
          ops::activation_backward(ops::kGelu, x, y),
          ops::activation_forward(ops::kTanh, x),
          ops::activation_forward(ops::kSigmoid, x),
          ops::activation_backward(ops::kSilu, x, y),
          ops::reduce_forward(x, ops::Reduction::sum),
          weights,
          velocity};
}

std::vector<Tensor> losses(Device& device, const std::vector<Layout>&) {
  const Tensor logits = formula_tensor(device, {65, 10}, {.scale = 9});
  return {ops::cross_entropy_backward(logits, labels_on(device, formula_labels(1, 65, 10)), {.scale = 0.1})};
}

std::vector<Tensor> weight_gradients(Device& device, const std::vector<Layout>&) {
  const Tensor x = formula_tensor(device, {5, 64, 14, 14}, {.tensor = 0});
  const Tensor y = formula_tensor(device, {5, 64, 14, 14}, {.tensor = 1});
  const Tensor weight = Tensor::zeros(device, {64, 64, 3, 3}), bias = Tensor::zeros(device, {64});
  ops::conv2d_backward_weights(x, y, {.weight = weight, .bias = bias}, {.padding = 1});
  const Tensor features = formula_tensor(device, {64, 800}, {.tensor = 2});
  const Tensor hidden = formula_tensor(device, {64, 128}, {.tensor = 3});
  const Tensor of_linear = Tensor::zeros(device, {128, 800}), of_bias = Tensor::zeros(device, {128});
  ops::linear_backward_weights(features, hidden, {.weight = of_linear, .bias = of_bias});
  return {weight,
          bias,
          of_linear,
          of_bias,
          ops::conv2d_backward_data(x, weight, y, {.padding = 1}),
          ops::linear_backward_data(of_linear, hidden)};
}

const std::vector<Computation> kComputations = {
    {"convolutions", true, convolutions},
    {"batch_norms", true, batch_norms},
    {"layer_norms", true, layer_norms},
    {"embeddings", true, embeddings},
    {"attention", true, attention},
    {"pools", true, pools},
    {"elementwise", true, elementwise},
    {"losses", true, losses},
    {"linear_layers", true, linear_layers},
    {"linear_layers_of_bf16", true, linear_layers_of_bf16},
    {"weight_gradients", false, weight_gradients},
    {"convolutions_by_tiles", cpu_bf16_unit() != Bf16Unit::none, convolutions_by_tiles}};

class SameBits : public ::testing::TestWithParam<std::tuple<DeviceRow, Computation>> {
 protected:
  static std::vector<std::vector<float>> run(int threads) {
    const auto& [row, computation] = GetParam();
    const auto device = row.open(threads);
    std::vector<std::vector<float>> results;
    for (const Tensor& tensor : computation.run(*device, row.image_layouts)) results.push_back(values_of(tensor));
    return results;
  }
  static void expect_same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i] == b[i]) << "result " << i;
  }
};

TEST_P(SameBits, FromEveryRun) {
  const auto first = run(2);
  for (int again = 0; again < 3; ++again) expect_same(run(2), first);
}

class SameBitsOfThreads : public SameBits {};

TEST_P(SameBitsOfThreads, FromAnyNumberOfThem) {
  const auto expected = run(1);
  for (const int threads : {2, 3}) {
    SCOPED_TRACE(threads);
    expect_same(run(threads), expected);
  }
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<DeviceRow, Computation>>& test) {
  return std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
}

std::vector<Computation> of_any_threads() {
  std::vector<Computation> computations = kComputations;
  std::erase_if(computations, [](const Computation& one) { return !one.any_threads; });
  return computations;
}

INSTANTIATE_TEST_SUITE_P(Computations, SameBits,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::ValuesIn(kComputations)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Computations, SameBitsOfThreads,
                         ::testing::Combine(::testing::ValuesIn(device_rows()), ::testing::ValuesIn(of_any_threads())),
                         name_of);

}  // namespace same_bits_test
}  // namespace dptrain
