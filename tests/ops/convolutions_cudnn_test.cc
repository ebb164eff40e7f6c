// cuDNN has algorithms for every convolution of the models on an H200, in every precision, according to its heuristics,
// which need no GPU. Only a GPU can show that they compute correctly.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "ops/cudnn_convolution_cuda.h"
#include "support/source_tree.h"

namespace dptrain::ops::cuda {
namespace convolutions_cudnn_test {

/// One convolution of LeNet or ResNet-18 on images of 28 x 28, of PyramidNet on images of 32 x 32, or of conv2d_test.cc
/// and half_precision_test.cc.
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
    {1, 64, 28, 64, 3, 1, 1, true, false},     {2, 5, 6, 8, 3, 1, 1, true, true},
    {2, 16, 6, 19, 3, 1, 1, true, true},       {2, 5, 6, 8, 3, 1, 1, false, false},
    {3, 16, 3, 16, 3, 1, 0, true, false},      {1, 64, 6, 20, 3, 2, 1, true, false},
};

std::string h200() {
  std::ifstream file(testing::source_file("tests/ops/h200.json"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class CudaConvolutionPlans : public ::testing::TestWithParam<std::pair<DType, ConvolutionRules>> {};

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::data_gradient,
                                       ConvolutionPass::weight_gradient};

ConvolutionProblem problem_of(const Layer& layer, DType dtype, ConvolutionPass pass) {
  const int64_t side = (layer.side + 2 * layer.padding - layer.kernel) / layer.stride + 1;
  const bool is_forward = pass == ConvolutionPass::forward;
  return {.pass = pass,
          .dtype = dtype,
          .x = {layer.batch, layer.in, layer.side, layer.side},
          .weight = {layer.out, layer.in, layer.kernel, layer.kernel},
          .y = {layer.batch, layer.out, side, side},
          .stride = layer.stride,
          .padding = layer.padding,
          .bias = is_forward && layer.bias,
          .relu = is_forward && layer.relu};
}

std::string text_of(const ConvolutionProblem& problem) {
  return problem.x.text() + " " + problem.weight.text() + " pass " + std::to_string(static_cast<int>(problem.pass));
}

TEST_P(CudaConvolutionPlans, ExistForEveryLayerOfTheModels) {
  const auto& [dtype, rules] = GetParam();
  const std::string gpu = h200();
  for (const Layer& layer : kLayers)
    for (const ConvolutionPass pass : kPasses) {
      const ConvolutionProblem problem = problem_of(layer, dtype, pass);
      EXPECT_GT(count_cudnn_convolutions(problem, rules, gpu), 0) << text_of(problem);
    }
}

/// Its numbers of channels are odd, so tensor cores need padded copies in their workspace.
TEST(CudaConvolutionPlansOfPyramidNet, HaveTensorCoresIn16Bits) {
  constexpr int64_t kBlocks = 17, kStages = 3, kGrowth = 5;  // alpha 270
  const std::string gpu = h200();
  for (const int64_t batch : {240, 768})
    for (int64_t block = 0; block < kStages * kBlocks; block += 5) {
      const bool halves = block % kBlocks == 0 && block > 0;
      const int64_t side = 32 >> (block / kBlocks), in = 16 + kGrowth * block, out = in + kGrowth;
      const int64_t before = halves ? 2 * side : side;
      for (const Layer& layer : {Layer{batch, in, before, out, 3, halves ? 2 : 1, 1, false, false},
                                 Layer{batch, out, side, out, 3, 1, 1, false, false}})
        for (const ConvolutionPass pass : kPasses) {
          const ConvolutionProblem problem = problem_of(layer, DType::bf16, pass);
          EXPECT_GT(count_cudnn_convolutions(problem, {.tensor_cores = true}, gpu), 0) << text_of(problem);
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

}  // namespace convolutions_cudnn_test
}  // namespace dptrain::ops::cuda
