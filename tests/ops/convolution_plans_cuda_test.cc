// cuDNN has algorithms for every convolution of the models on an H200, in every precision: asked of its heuristics,
// which need no GPU. That they compute what they should is for a GPU to show.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "ops/convolution_plan_cuda.h"
#include "support/source_tree.h"

namespace dptrain::ops::cuda {
namespace {

/// One convolution of LeNet or ResNet-18 on images of 28 x 28.
struct Layer {
  int64_t batch, in, side, out, kernel, stride, padding;
  bool bias, relu;
};

constexpr Layer kLayers[] = {
    {256, 1, 28, 20, 5, 1, 0, true, true},     {256, 20, 12, 50, 5, 1, 0, true, true},
    {512, 1, 28, 64, 3, 1, 1, true, false},    {512, 64, 28, 64, 3, 1, 1, true, false},
    {512, 64, 28, 128, 3, 2, 1, true, false},  {512, 128, 14, 128, 3, 1, 1, true, false},
    {512, 128, 14, 256, 3, 2, 1, true, false}, {512, 256, 7, 256, 3, 1, 1, true, false},
    {512, 256, 7, 512, 3, 2, 1, true, false},  {512, 512, 4, 512, 3, 1, 1, true, false},
    {512, 64, 28, 128, 1, 2, 0, true, false},  {512, 128, 14, 256, 1, 2, 0, true, false},
    {512, 256, 7, 512, 1, 2, 0, true, false},  {96, 64, 28, 64, 3, 1, 1, true, false},
    {1, 64, 28, 64, 3, 1, 1, true, false},
};

std::string h200() {
  std::ifstream file(testing::source_file("tests/ops/h200.json"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class CudaConvolutionPlans : public ::testing::TestWithParam<std::pair<DType, ConvolutionRules>> {};

TEST_P(CudaConvolutionPlans, ExistForEveryLayerOfTheModels) {
  const auto& [dtype, rules] = GetParam();
  const std::string gpu = h200();
  for (const Layer& layer : kLayers) {
    const int64_t side = (layer.side + 2 * layer.padding - layer.kernel) / layer.stride + 1;
    ConvolutionProblem problem{.dtype = dtype,
                               .x = {layer.batch, layer.in, layer.side, layer.side},
                               .weight = {layer.out, layer.in, layer.kernel, layer.kernel},
                               .y = {layer.batch, layer.out, side, side},
                               .stride = layer.stride,
                               .padding = layer.padding};
    for (const auto pass :
         {ConvolutionPass::forward, ConvolutionPass::data_gradient, ConvolutionPass::weight_gradient}) {
      SCOPED_TRACE(problem.x.text() + " " + problem.weight.text() + " pass " + std::to_string(static_cast<int>(pass)));
      problem.pass = pass;
      problem.bias = pass == ConvolutionPass::forward && layer.bias;
      problem.relu = pass == ConvolutionPass::forward && layer.relu;
      EXPECT_GT(count_convolution_algorithms(problem, rules, gpu), 0);
    }
  }
}

std::string rules_name(const ::testing::TestParamInfo<std::pair<DType, ConvolutionRules>>& info) {
  const ConvolutionRules& rules = info.param.second;
  return std::string(dtype_name(info.param.first)) + (rules.tf32 ? "_tf32" : "") +
         (rules.deterministic ? "_deterministic" : "");
}

INSTANTIATE_TEST_SUITE_P(H200, CudaConvolutionPlans,
                         ::testing::Values(std::pair{DType::bf16, ConvolutionRules{}},
                                           std::pair{DType::bf16, ConvolutionRules{.deterministic = true}},
                                           std::pair{DType::f16, ConvolutionRules{.deterministic = true}},
                                           std::pair{DType::f32, ConvolutionRules{.tf32 = true}},
                                           std::pair{DType::f32, ConvolutionRules{}},
                                           std::pair{DType::f32, ConvolutionRules{.deterministic = true}}),
                         rules_name);

}  // namespace
}  // namespace dptrain::ops::cuda
