// Replaces lib/ops/cudnn_convolution_cuda.cc in simulated builds: plain loops instead of cuDNN.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../refusals.h"
#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "ops/cudnn_convolution_cuda.h"
#include "ops/gpu_libraries_cuda.h"

namespace dptrain::ops::cuda {
namespace {

std::vector<float> floats_at(const void* memory, DType dtype, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    float& value = values[static_cast<size_t>(i)];
    switch (dtype) {
      case DType::bf16: value = __bfloat162float(static_cast<const __nv_bfloat16*>(memory)[i]); break;
      case DType::f16: value = __half2float(static_cast<const __half*>(memory)[i]); break;
      default: value = static_cast<const float*>(memory)[i];
    }
  }
  return values;
}

void store(const std::vector<float>& values, DType dtype, void* memory) {
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::bf16: static_cast<__nv_bfloat16*>(memory)[i] = __float2bfloat16_rn(values[i]); break;
      case DType::f16: static_cast<__half*>(memory)[i] = __float2half_rn(values[i]); break;
      default: static_cast<float*>(memory)[i] = values[i];
    }
  }
}

/// One pass in a stream. Its operands are read when the stream reaches it.
struct Pass {
  ConvolutionProblem problem;
  const void* first;
  const void* second;
  const void* bias;
  void* out;

  /// Calls body(x, weight, y) with the offsets of the C channels of an input and a weight, and of one output, for all
  /// pairs of an output and an input that meet.
  template <class Body>
  void for_all(const Body& body) const {
    const Shape &x = problem.x, &w = problem.weight, &y = problem.y;
    for (int64_t n = 0; n < y[0]; ++n)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j)
          for (int64_t u = 0; u < w[2]; ++u)
            for (int64_t v = 0; v < w[3]; ++v) {
              const int64_t h = i * problem.stride + u - problem.padding;
              const int64_t across = j * problem.stride + v - problem.padding;
              if (h < 0 || h >= x[2] || across < 0 || across >= x[3]) continue;
              const int64_t in = ((n * x[2] + h) * x[3] + across) * x[1];
              for (int64_t o = 0; o < w[0]; ++o)
                body(in, ((o * w[2] + u) * w[3] + v) * x[1], ((n * y[2] + i) * y[3] + j) * y[1] + o);
            }
  }

  void run() const {
    const auto& [pass, dtype, x, w, y, stride, padding, has_bias, relu] = problem;
    const int64_t channels = x[1];
    const bool is_forward = pass == ConvolutionPass::forward, to_data = pass == ConvolutionPass::data_gradient;
    const auto a = floats_at(first, dtype, to_data ? y.elements() : x.elements());
    const auto b = floats_at(second, dtype, pass == ConvolutionPass::weight_gradient ? y.elements() : w.elements());
    std::vector<float> result(static_cast<size_t>((is_forward ? y : to_data ? x : w).elements()), 0.f);
    const auto plus = [channels](float* to, const float* from, float factor) {
      for (int64_t c = 0; c < channels; ++c) to[c] += factor * from[c];
    };
    for_all([&](int64_t in, int64_t weight, int64_t output) {
      if (is_forward) {
        float sum = 0;
        for (int64_t c = 0; c < channels; ++c) sum += a.data()[in + c] * b.data()[weight + c];
        result.data()[output] += sum;
      } else if (to_data) {
        plus(result.data() + in, b.data() + weight, a.data()[output]);
      } else {
        plus(result.data() + weight, a.data() + in, b.data()[output]);
      }
    });
    if (has_bias) {
      const auto added = floats_at(bias, dtype, w[0]);
      for (size_t i = 0; i < result.size(); ++i) result[i] += added[i % added.size()];
    }
    if (relu)
      for (float& value : result) value = value > 0.f ? value : 0.f;
    store(result, dtype, out);
  }
};

class SimulatedPlan final : public ConvolutionPlan {
 public:
  explicit SimulatedPlan(const ConvolutionProblem& problem) : problem_(problem) {}

  bool run(const ConvolutionOperands& operands) override {
    if ((problem_.bias || problem_.relu) && cuda_sim::refuses_fused()) return false;
    // Kept until the plan ends, because a captured pass may run repeatedly.
    passes_.push_back(std::make_unique<Pass>(Pass{.problem = problem_,
                                                  .first = operands.first.raw(),
                                                  .second = operands.second.raw(),
                                                  .bias = operands.bias.defined() ? operands.bias.raw() : nullptr,
                                                  .out = operands.out.raw()}));
    cuda_check(cudaLaunchHostFunc(
                   CudaDevice::of(operands.out.device()).stream(),
                   [](void* pass) { static_cast<const Pass*>(pass)->run(); }, passes_.back().get()),
               "cudaLaunchHostFunc");
    return true;
  }
  std::string refusal() const override { return "DPTRAIN_CUDA_SIM_REFUSES"; }
  int64_t workspace_bytes() const override { return 0; }
  std::string_view name() const override { return "cuDNN"; }

 private:
  ConvolutionProblem problem_;
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace

LibraryVersion cudnn_library() { return {.name = "simulated cuDNN", .built_major = 1, .loaded_major = 1}; }

void require_whole_cudnn() {}

ConvolutionOffer cudnn_convolutions(Device&, const ConvolutionProblem& problem) {
  ConvolutionOffer offer;
  offer.plans.push_back(std::make_unique<SimulatedPlan>(problem));
  return offer;
}

}  // namespace dptrain::ops::cuda
