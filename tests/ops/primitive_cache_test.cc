// A device keeps the primitives that it has made, by their shapes and options. Calls that differ in only one of them
// must not get each other's: every result on a device that has seen all calls equals that of a fresh device.

#include <functional>

#include "ops/conv2d.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "support/device_rows.h"
#include "support/formula_tensor.h"

namespace dptrain {
namespace primitive_cache_test {

using namespace testing;

using Call = std::function<std::vector<Tensor>(Device&)>;

std::vector<Tensor> convolution(Device& device, const Shape& weight_shape, bool with_bias, Layout layout,
                                const ops::Conv2dOptions& options) {
  const Tensor x = formula_tensor(device, {2, 16, 7, 7}, {.tensor = 0}, layout);
  const Tensor weight = formula_tensor(device, weight_shape, {.tensor = 1});
  const Tensor bias = with_bias ? formula_tensor(device, {weight_shape[0]}, {.tensor = 2}) : Tensor();
  const Tensor y = ops::conv2d_forward(x, weight, bias, options);
  const Tensor of_weight = Tensor::zeros(device, weight_shape);
  ops::conv2d_backward_weights(x, y, {.weight = of_weight, .bias = {}}, options);
  return {y, ops::conv2d_backward_data(x, weight, y, options), of_weight};
}

std::vector<Call> convolutions() {
  std::vector<Call> calls;
  for (const Shape& weight : {Shape{16, 16, 3, 3}, Shape{32, 16, 3, 3}, Shape{16, 16, 5, 5}})
    for (const bool bias : {false, true})
      for (const int64_t stride : {1, 2})
        for (const int64_t padding : {0, 1})
          for (const bool relu : {false, true})
            for (const auto algorithm : {ops::ConvolutionAlgorithm::direct, ops::ConvolutionAlgorithm::automatic})
              calls.push_back([=](Device& device) {
                return convolution(device, weight, bias, stride == 1 ? Layout::plain : Layout::nhwc,
                                   {.stride = stride, .padding = padding, .relu = relu, .algorithm = algorithm});
              });
  return calls;
}

std::vector<Call> linear_layers() {
  std::vector<Call> calls;
  for (const auto& [n, in, out] : {std::tuple(4, 8, 6), std::tuple(4, 6, 8), std::tuple(8, 4, 6), std::tuple(6, 8, 4)})
    for (const bool bias : {false, true})
      for (const bool relu : {false, true})
        calls.push_back([=, n = n, in = in, out = out](Device& device) -> std::vector<Tensor> {
          const Tensor x = formula_tensor(device, {n, in}, {.tensor = 0});
          const Tensor weight = formula_tensor(device, {out, in}, {.tensor = 1});
          const Tensor y =
              ops::linear_forward(x, weight, bias ? formula_tensor(device, {out}, {.tensor = 2}) : Tensor(), relu);
          const Tensor of_weight = Tensor::zeros(device, {out, in});
          ops::linear_backward_weights(x, y, {.weight = of_weight, .bias = {}});
          return {y, ops::linear_backward_data(weight, y), of_weight};
        });
  return calls;
}

std::vector<Call> pools(const std::vector<Layout>& layouts) {
  std::vector<Call> calls;
  for (const Layout layout : layouts)
    for (const ops::Pooling pooling : {ops::Pooling::max, ops::Pooling::average})
      for (const ops::Pool2dOptions& options :
           {ops::Pool2dOptions{}, ops::Pool2dOptions{.ceil = true}, ops::Pool2dOptions{.kernel = 3},
            ops::Pool2dOptions{.stride = 1}, ops::Pool2dOptions{.padding = 1}})
        calls.push_back([=](Device& device) -> std::vector<Tensor> {
          const Tensor x = formula_tensor(device, {2, 16, 7, 7}, {.tensor = 0}, layout);
          const auto result = ops::pool2d_forward(x, pooling, options);
          return {result.y, ops::pool2d_backward(x, result.workspace, result.y, pooling, options)};
        });
  return calls;
}

class PrimitiveCache : public ::testing::TestWithParam<DeviceRow> {
 protected:
  void expect_unmixed(const std::vector<Call>& calls) const {
    const auto used = GetParam().open(1);
    for (size_t call = 0; call < calls.size(); ++call) {
      SCOPED_TRACE(call);
      const auto fresh = GetParam().open(1);
      const std::vector<Tensor> expected = calls[call](*fresh), got = calls[call](*used);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(got[i].shape(), expected[i].shape());
        EXPECT_TRUE(values_of(got[i]) == values_of(expected[i])) << "result " << i;
      }
    }
  }
};

TEST_P(PrimitiveCache, TellsConvolutionsApart) { expect_unmixed(convolutions()); }
TEST_P(PrimitiveCache, TellsLinearLayersApart) { expect_unmixed(linear_layers()); }
TEST_P(PrimitiveCache, TellsPoolsApart) { expect_unmixed(pools(GetParam().image_layouts)); }

INSTANTIATE_TEST_SUITE_P(Devices, PrimitiveCache, ::testing::ValuesIn(device_rows()), RowName());

}  // namespace primitive_cache_test
}  // namespace dptrain
