#include "ops/cudnn_convolution_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "ops/cudnn_handle_cuda.h"

// The frontend's header takes long to compile; no other file includes it.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

namespace dptrain::ops::cuda {
namespace {

namespace fe = cudnn_frontend;
using GraphTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// How many algorithms to ask for: to time them, or, if runs must be repeatable, in case the first doesn't work.
constexpr int kTimed = 6;
constexpr int kInOrder = 3;

/// The ids of operands in a variant pack.
enum Uid : int64_t { kFirst = 1, kSecond, kBias, kOut };

fe::DataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return fe::DataType_t::BFLOAT16;
    case DType::f16: return fe::DataType_t::HALF;
    default: return fe::DataType_t::FLOAT;
  }
}

std::vector<int64_t> dimensions(const Shape& s) { return {s[0], s[1], s[2], s[3]}; }
std::vector<int64_t> nhwc_strides(const Shape& s) { return {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]}; }

GraphTensor input(fe::graph::Graph& graph, Uid uid, const char* name, const Shape& shape) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim(dimensions(shape))
                          .set_stride(nhwc_strides(shape)));
}

template <class Attributes>
Attributes windows(const ConvolutionProblem& p) {
  return Attributes()
      .set_padding({p.padding, p.padding})
      .set_stride({p.stride, p.stride})
      .set_dilation({1, 1})
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

GraphTensor forward(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const auto pointwise = [](fe::PointwiseMode_t mode) {
    return fe::graph::Pointwise_attributes().set_mode(mode).set_compute_data_type(fe::DataType_t::FLOAT);
  };
  GraphTensor y = graph.conv_fprop(input(graph, kFirst, "x", p.x), input(graph, kSecond, "weight", p.weight),
                                   windows<fe::graph::Conv_fprop_attributes>(p));
  if (p.bias)
    y = graph.pointwise(y, input(graph, kBias, "bias", {1, p.weight[0], 1, 1}), pointwise(fe::PointwiseMode_t::ADD));
  return p.relu ? graph.pointwise(y, pointwise(fe::PointwiseMode_t::RELU_FWD)) : y;
}

/// Describes the problem's pass to cuDNN.
void describe(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  graph.set_io_data_type(type_of(p.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  GraphTensor out;
  Shape shape;
  switch (p.pass) {
    case ConvolutionPass::forward:
      out = forward(graph, p);
      shape = p.y;
      break;
    case ConvolutionPass::data_gradient:
      out = graph.conv_dgrad(input(graph, kFirst, "dy", p.y), input(graph, kSecond, "weight", p.weight),
                             windows<fe::graph::Conv_dgrad_attributes>(p));
      shape = p.x;
      break;
    case ConvolutionPass::weight_gradient:
      out = graph.conv_wgrad(input(graph, kSecond, "dy", p.y), input(graph, kFirst, "x", p.x),
                             windows<fe::graph::Conv_wgrad_attributes>(p));
      shape = p.weight;
      break;
  }
  out->set_output(true)
      .set_uid(kOut)
      .set_dim(dimensions(shape))
      .set_stride(nhwc_strides(shape))
      .set_data_type(type_of(p.dtype));
}

/// Where cuDNN looks for algorithms.
enum class Source {
  heuristic,  ///< its guess, best first, without slow ones
  fallback,   ///< whatever computes the problem at all; asking takes longer than for the guess
};

/// The graph of a problem's operations, and those of its plans that are built, best first. There are no plans if cuDNN
/// has refused the problem, or the rules have left none.
struct Offer {
  std::shared_ptr<fe::graph::Graph> graph = {};
  std::vector<int64_t> plans = {};
  std::string refusal = {};  ///< cuDNN's last one; "" if the rules have left nothing
};

/// Removes the plans that the rules forbid from those that cuDNN offers.
void apply(const ConvolutionRules& rules, Source source, const ConvolutionProblem& problem, fe::graph::Graph& graph) {
  // Sums are f32 in all precisions.
  std::vector<fe::NumericalNote_t> unwanted = {fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  // The engine that always keeps NaN is the slow one without tiles.
  if (source == Source::heuristic) unwanted.push_back(fe::NumericalNote_t::STRICT_NAN_PROP);
  if (rules.deterministic) unwanted.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  if (problem.dtype == DType::f32) {
    // Inputs must not be converted to 16 bits, whose range is smaller.
    unwanted.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
    if (!rules.tf32) unwanted.push_back(fe::NumericalNote_t::TENSOR_CORE);
    // Such runs are compared with a CPU worker and must round like it.
    if (rules.deterministic && !rules.tf32) {
      unwanted.push_back(fe::NumericalNote_t::WINOGRAD);
      unwanted.push_back(fe::NumericalNote_t::FFT);
    }
  }
  graph.deselect_numeric_notes(unwanted);
  // Compiling at run time takes up to two seconds per plan.
  graph.deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
  graph.deselect_workspace_greater_than(most_workspace_bytes(problem));
  if (rules.tensor_cores) graph.select_numeric_notes({fe::NumericalNote_t::TENSOR_CORE});
}

/// Returns at most `most` plans of a source. `prepare(graph)` builds the graph's operations for a GPU.
template <class Prepare>
Offer offer_of(Source source, const ConvolutionProblem& problem, const ConvolutionRules& rules, int most,
               const Prepare& prepare) {
  Offer offer{.graph = std::make_shared<fe::graph::Graph>()};
  fe::graph::Graph& graph = *offer.graph;
  const auto good = [&offer](fe::error_t status) {
    if (status.is_bad()) offer.refusal = status.get_message();
    return status.is_good();
  };
  describe(graph, problem);
  const auto mode = source == Source::heuristic ? fe::HeurMode_t::A : fe::HeurMode_t::FALLBACK;
  if (!good(prepare(graph)) || !good(graph.create_execution_plans({mode}))) return offer;
  apply(rules, source, problem, graph);
  const int64_t offered = graph.get_execution_plan_count();
  for (int64_t at = 0; at < offered && static_cast<int>(offer.plans.size()) < most; ++at)
    if (good(graph.build_plan_at_index(at))) offer.plans.push_back(at);
  return offer;
}

/// Whether a slow plan is worth looking for. It isn't for a fused bias or ReLU, which can be a pass of its own.
bool has_fallback(const ConvolutionProblem& problem) { return !problem.bias && !problem.relu; }

/// Returns plans of the first source that has any.
template <class Prepare>
Offer offer_of(const ConvolutionProblem& problem, const ConvolutionRules& rules, int most, const Prepare& prepare) {
  Offer offer = offer_of(Source::heuristic, problem, rules, most, prepare);
  if (!offer.plans.empty() || !has_fallback(problem)) return offer;
  return offer_of(Source::fallback, problem, rules, most, prepare);
}

/// One plan of a graph, which several plans share.
class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(std::shared_ptr<cudnnContext> handle, std::shared_ptr<fe::graph::Graph> graph, int64_t plan)
      : handle_(std::move(handle)), graph_(std::move(graph)), plan_(plan) {}

  bool run(const ConvolutionOperands& operands) override {
    Device& device = operands.out.device();
    std::unordered_map<int64_t, void*> pack = {
        {kFirst, operands.first.raw()}, {kSecond, operands.second.raw()}, {kOut, operands.out.raw()}};
    if (operands.bias.defined()) pack.emplace(kBias, operands.bias.raw());
    const Tensor workspace =
        Tensor::empty(device, {workspace_bytes()}, {.dtype = DType::u8, .purpose = MemoryPurpose::workspace});
    for (const auto& [name, memory] : pack)
      DPTRAIN_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0, "operand {} of a convolution lies askew",
                    name);
    auto status = graph_->execute_plan_at_index(handle_.get(), pack, workspace.raw(), plan_);
    if (status.is_bad()) refusal_ = status.get_message();
    return status.is_good();
  }
  std::string refusal() const override { return refusal_; }
  int64_t workspace_bytes() const override { return graph_->get_workspace_size_plan_at_index(plan_); }
  std::string_view name() const override { return "cuDNN"; }

 private:
  static constexpr uintptr_t kAlignment = 16;  ///< bytes, which the frontend promises for each operand

  std::shared_ptr<cudnnContext> handle_;  ///< destroyed after the plan, which was made with it
  std::shared_ptr<fe::graph::Graph> graph_;
  int64_t plan_;
  std::string refusal_;
};

}  // namespace

ConvolutionOffer cudnn_convolutions(Device& device, const ConvolutionProblem& problem) {
  const CudaDevice& gpu = CudaDevice::of(device);
  const auto handle = cudnn_handle(device);
  const ConvolutionRules rules{.deterministic = gpu.deterministic(), .tf32 = gpu.tf32()};
  const int most = rules.deterministic ? kInOrder : kTimed;
  const auto prepare = [handle](fe::graph::Graph& graph) {
    const auto status = graph.validate();
    return status.is_bad() ? status : graph.build_operation_graph(handle.get());
  };
  const auto plans_of = [handle](const Offer& offer) {
    std::vector<std::unique_ptr<ConvolutionPlan>> plans;
    for (const int64_t plan : offer.plans) plans.push_back(std::make_unique<CudnnPlan>(handle, offer.graph, plan));
    return plans;
  };
  const Offer offer = offer_of(problem, rules, most, prepare);
  ConvolutionOffer offered{.plans = plans_of(offer), .refusal = offer.refusal};
  if (has_fallback(problem) && !offer.plans.empty())
    offered.others = [=] { return plans_of(offer_of(Source::fallback, problem, rules, most, prepare)); };
  return offered;
}

int count_cudnn_convolutions(const ConvolutionProblem& problem, const ConvolutionRules& rules, std::string_view gpu) {
  auto properties = std::make_shared<fe::DeviceProperties>();
  std::vector<uint8_t> json(gpu.begin(), gpu.end());
  json.push_back(0);  // cuDNN reads a C string
  auto status = properties->deserialize(json);
  if (status.is_bad()) throw Error(ExitCode::device, fmt::format("cuDNN: {}", status.get_message()));
  const Offer offer = offer_of(problem, rules, std::numeric_limits<int>::max(), [&](fe::graph::Graph& graph) {
    graph.set_device_properties(properties);
    const auto valid = graph.validate();
    return valid.is_bad() ? valid : graph.build_operation_graph();
  });
  return static_cast<int>(offer.plans.size());
}

}  // namespace dptrain::ops::cuda
