#include "ops/winograd_convolution_cuda.h"

#include <algorithm>
#include <string>

#include "ops/cublaslt_product_cuda.h"
#include "ops/winograd_transforms_cuda.h"

namespace dptrain::ops::cuda {
namespace {

/// With fewer channels the matrices are too narrow for their transforms to be worth it.
constexpr int64_t kFewestChannels = 16;
/// The bytes of transformed images that should stay in an H200's L2 cache of 50 MB.
constexpr int64_t kCachedBytes = int64_t{32} << 20;
constexpr int64_t kMostParts = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Returns in how many parts to compute a weight's gradient, which is a sum over tiles. As one sum it would have one
/// block of threads for each tile of the result, which are few. In parts it has two blocks for each of an H200's 132
/// multiprocessors, with 256 terms or more in each part.
int64_t sum_parts(const Shape& weight, int64_t rows) {
  constexpr int64_t kBlock = 128, kBlocks = 264, kFewestTerms = 256;
  const int64_t blocks = kWinogradProducts * ceil_div(weight[0], kBlock) * ceil_div(weight[1], kBlock);
  return std::clamp(rows / kFewestTerms, int64_t{1}, ceil_div(kBlocks, blocks));
}

Tensor matrices(const Tensor& like, int64_t count, int64_t rows, int64_t columns) {
  return Tensor::empty(like.device(), {count, rows, columns}, {.purpose = MemoryPurpose::workspace});
}

/// How many images are transformed at once, and the memory that this takes.
struct Parts {
  int64_t images;
  int64_t count;
  int64_t transformed_bytes;  ///< of a part
  int64_t other_bytes;        ///< transformed weights or their gradients
  int64_t sum_parts = 1;      ///< of a weight's gradient

  Parts(const ConvolutionProblem& p, int64_t most_transformed_bytes) {
    const bool of_weights = p.pass == ConvolutionPass::weight_gradient;
    // The tiles are those of what the pass writes, or those of dy if it writes the weights' gradient.
    const Shape& tiled = p.pass == ConvolutionPass::data_gradient ? p.x : p.y;
    const int64_t tiles = WinogradTiling({1, tiled[1], tiled[2], tiled[3]}).count();
    const auto bytes = [](int64_t numbers) {
      return kWinogradProducts * numbers * static_cast<int64_t>(sizeof(float));
    };
    const int64_t of_image = bytes(tiles * (p.x[1] + p.y[1]));
    count = ceil_div(tiled[0], std::clamp(most_transformed_bytes / of_image, int64_t{1}, tiled[0]));
    images = ceil_div(tiled[0], count);
    if (of_weights) sum_parts = cuda::sum_parts(p.weight, images * tiles);
    transformed_bytes = images * of_image;
    other_bytes = bytes(sum_parts * p.weight[0] * p.weight[1]);
  }
};

class WinogradPlan final : public ConvolutionPlan {
 public:
  WinogradPlan(const ConvolutionProblem& problem, const Parts& parts) : problem_(problem), parts_(parts) {}

  bool run(const ConvolutionOperands& operands) override {
    return problem_.pass == ConvolutionPass::weight_gradient ? sum_weights(operands) : convolve(operands);
  }
  std::string refusal() const override { return "cuBLASLt has no batch of products for Winograd's convolution"; }
  int64_t workspace_bytes() const override { return parts_.transformed_bytes + parts_.other_bytes; }
  std::string_view name() const override { return "winograd"; }

 private:
  /// Calls body(begin, end) for the parts of the images, as long as it returns true. Returns whether it always did.
  template <class Body>
  bool for_each_part(const Body& body) const {
    const int64_t images = problem_.x[0];
    for (int64_t begin = 0; begin < images; begin += parts_.images)
      if (!body(begin, std::min(images, begin + parts_.images))) return false;
    return true;
  }

  /// Convolves x with the weights, or dy with the weights turned by 180 degrees.
  bool convolve(const ConvolutionOperands& operands) const {
    const bool is_forward = problem_.pass == ConvolutionPass::forward;
    const Tensor u = matrices(operands.out, kWinogradProducts, problem_.weight[0], problem_.weight[1]);
    transform_weights(operands.second, /*turned=*/!is_forward, u);
    const int64_t padding = is_forward ? problem_.padding : kWinogradWeights - 1 - problem_.padding;
    return for_each_part([&](int64_t begin, int64_t end) {
      const Tensor in = operands.first.samples(begin, end), out = operands.out.samples(begin, end);
      const WinogradTiling tiling(out.shape());
      const Tensor v = matrices(u, kWinogradProducts, tiling.count(), in.shape()[1]);
      transform_inputs(in, tiling, padding, v);
      const Tensor m = matrices(u, kWinogradProducts, tiling.count(), out.shape()[1]);
      if (!try_multiply({.a = v, .b = u, .out = m, .transpose_b = is_forward})) return false;
      transform_outputs(m, tiling, operands.bias, problem_.relu, out);
      return true;
    });
  }

  bool sum_weights(const ConvolutionOperands& operands) const {
    const int64_t sums = parts_.sum_parts, outputs = problem_.weight[0], inputs = problem_.weight[1];
    const Tensor du = matrices(operands.out, kWinogradProducts * sums, outputs, inputs);
    const bool all = for_each_part([&](int64_t begin, int64_t end) {
      const Tensor x = operands.first.samples(begin, end), dy = operands.second.samples(begin, end);
      const WinogradTiling tiling(dy.shape());
      // The rows of a product are several matrices, one after the other.
      const int64_t terms = ceil_div(tiling.count(), sums);
      const auto transformed = [&](int64_t channels) {
        return matrices(du, kWinogradProducts, sums * terms, channels);
      };
      const auto in_parts = [&](const Tensor& all_rows) {
        return all_rows.reshaped({kWinogradProducts * sums, terms, all_rows.shape()[2]});
      };
      const Tensor v = transformed(inputs), z = transformed(outputs);
      transform_inputs(x, tiling, problem_.padding, v);
      transform_output_gradients(dy, tiling, z);
      return try_multiply(
          {.a = in_parts(z), .b = in_parts(v), .out = du, .transpose_a = true, .accumulate = begin > 0});
    });
    if (all) transform_weight_gradient(du, operands.out);
    return all;
  }

  ConvolutionProblem problem_;
  Parts parts_;
};

}  // namespace

bool can_be_winograd(const ConvolutionProblem& p) {
  const auto has_rows = [](const Shape& images) {
    // The factor 1/2 leaves room for the rows that fill up the last part of a sum in parts.
    return WinogradTiling(images).count() <= kMostWinogradRows / 2;
  };
  return p.dtype == DType::f32 && p.weight[2] == kWinogradWeights && p.weight[3] == kWinogradWeights && p.stride == 1 &&
         p.padding < kWinogradWeights && p.weight[0] >= kFewestChannels && p.weight[1] >= kFewestChannels &&
         has_rows(p.x) && has_rows(p.y);
}

std::vector<std::unique_ptr<ConvolutionPlan>> winograd_convolutions(const ConvolutionProblem& problem) {
  std::vector<std::unique_ptr<ConvolutionPlan>> plans;
  const Parts few(problem, most_workspace_bytes(problem)), cached(problem, kCachedBytes);
  plans.push_back(std::make_unique<WinogradPlan>(problem, few));
  if (cached.count > few.count && cached.count <= kMostParts)
    plans.push_back(std::make_unique<WinogradPlan>(problem, cached));
  return plans;
}

}  // namespace dptrain::ops::cuda
