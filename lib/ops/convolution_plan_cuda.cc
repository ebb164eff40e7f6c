#include "ops/convolution_plan_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
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

/// Algorithms that are tried before one is chosen: timed, or, where runs must be repeatable, the first that works.
constexpr int kTried = 6;
constexpr int kTriedInOrder = 3;
/// A larger workspace is to be worth so much, as it is memory that activations could have.
constexpr float kWorthMemory = 0.95f;
/// Candidates this much slower than the best are tried once; of the others the shortest of several tries counts.
constexpr float kFarFromBest = 1.5f;
constexpr int kRounds = 3;
/// Longer passes are tried once: they show what they take, and a training is to begin within three seconds.
constexpr float kLong_ms = 1;
/// Of shorter passes several are timed one after the other, behind another one, as giving them to the GPU takes a good
/// part of that.
constexpr float kShort_ms = 0.1f;
/// Sum of single runs after which no further candidate of a problem is tried: the heuristic has put the best first.
constexpr float kMostTrying_ms = 12;
/// A GPU that has been idle takes its time to come to its clock.
constexpr double kWarmUp_s = 0.02;

/// cuDNN offers some that want ten times what the images take. Where channels are odd in number, tensor cores want
/// copies of both images that are padded, up to twice as large.
int64_t most_workspace_bytes(const ConvolutionProblem& p) {
  return (int64_t{64} << 20) + (p.x.elements() + p.y.elements()) * dtype_bytes(p.dtype) * 5 / 2;
}

/// The places of operands in a variant pack.
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
  heuristic,  ///< its guess, best first, less those that are slow
  fallback,   ///< whatever computes it at all; asking takes longer than the guess
};

/// A problem's operations, and those plans of the graph that are built, best first; none where cuDNN has refused the
/// problem, or the rules have left nothing.
struct Offer {
  std::unique_ptr<fe::graph::Graph> graph = {};
  std::vector<int64_t> plans = {};
  std::string refusal = {};  ///< cuDNN's, the last one; "" where the rules have left nothing
};

/// Strikes out of what cuDNN offers what the rules forbid.
void apply(const ConvolutionRules& rules, Source source, const ConvolutionProblem& problem, fe::graph::Graph& graph) {
  // Sums are f32 in all precisions.
  std::vector<fe::NumericalNote_t> unwanted = {fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  // The engine that keeps NaN in all it does is the one that has no tiles.
  if (source == Source::heuristic) unwanted.push_back(fe::NumericalNote_t::STRICT_NAN_PROP);
  if (rules.deterministic) unwanted.push_back(fe::NumericalNote_t::NONDETERMINISTIC);
  if (problem.dtype == DType::f32) {
    // Not to 16 bits, whose range is less.
    unwanted.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
    if (!rules.tf32) unwanted.push_back(fe::NumericalNote_t::TENSOR_CORE);
    // What is compared with a CPU worker is to round like it.
    if (rules.deterministic && !rules.tf32) {
      unwanted.push_back(fe::NumericalNote_t::WINOGRAD);
      unwanted.push_back(fe::NumericalNote_t::FFT);
    }
  }
  graph.deselect_numeric_notes(unwanted);
  // Compiling at run time takes up to two seconds a plan.
  graph.deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
  graph.deselect_workspace_greater_than(most_workspace_bytes(problem));
  if (rules.tensor_cores) graph.select_numeric_notes({fe::NumericalNote_t::TENSOR_CORE});
}

/// At most `most` plans of a source. `prepare(graph)` builds its operations for a GPU.
template <class Prepare>
Offer offer_of(Source source, const ConvolutionProblem& problem, const ConvolutionRules& rules, int most,
               const Prepare& prepare) {
  Offer offer{.graph = std::make_unique<fe::graph::Graph>()};
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

/// The same from the first source that has any.
template <class Prepare>
Offer offer_of(const ConvolutionProblem& problem, const ConvolutionRules& rules, int most, const Prepare& prepare) {
  Offer offer = offer_of(Source::heuristic, problem, rules, most, prepare);
  return offer.plans.empty() ? offer_of(Source::fallback, problem, rules, most, prepare) : std::move(offer);
}

class CudnnPlan final : public ConvolutionPlan {
 public:
  CudnnPlan(Device& device, std::unique_ptr<fe::graph::Graph> graph, std::vector<int64_t> candidates)
      : device_(CudaDevice::of(device)), graph_(std::move(graph)), candidates_(std::move(candidates)) {}

  bool run(const ConvolutionOperands& operands) override {
    if (!chosen_) choose(operands);
    return chosen_ && execute(operands, *chosen_);
  }
  std::string refusal() const override { return refusal_; }

 private:
  /// Whether cuDNN took it.
  bool execute(const ConvolutionOperands& operands, int64_t plan) {
    std::unordered_map<int64_t, void*> pack = {
        {kFirst, operands.first.raw()}, {kSecond, operands.second.raw()}, {kOut, operands.out.raw()}};
    if (operands.bias.defined()) pack.emplace(kBias, operands.bias.raw());
    const Tensor workspace = Tensor::empty(device_, {graph_->get_workspace_size_plan_at_index(plan)},
                                           {.dtype = DType::u8, .purpose = MemoryPurpose::workspace});
    auto status = graph_->execute_plan_at_index(cudnn_handle(device_), pack, workspace.raw(), plan);
    if (status.is_bad()) refusal_ = status.get_message();
    return status.is_good();
  }

  struct Candidate {
    int64_t plan;
    float ms;  ///< of one run, the shortest seen
  };

  /// Tries the candidates on the operands of the first call, which all of them compute alike. That a plan could be
  /// built doesn't promise that it runs.
  void choose(const ConvolutionOperands& operands) {
    std::vector<Candidate> tried;
    CudaTimer timer;
    float spent_ms = 0;
    for (const int64_t plan : candidates_) {
      if (!can_execute(operands, plan)) continue;  // loads its kernels, too
      if (device_.deterministic()) {
        chosen_ = plan;
        return;
      }
      warm_up(operands, plan);
      tried.push_back({plan, milliseconds(timer, operands, plan)});
      if ((spent_ms += tried.back().ms) > kMostTrying_ms) break;
    }
    if (tried.empty()) return;
    const float least_once = std::ranges::min(tried, {}, &Candidate::ms).ms;
    std::erase_if(tried, [&](const Candidate& one) { return one.ms > kFarFromBest * least_once; });
    // In turns, as a GPU's clock changes.
    const int rounds = least_once < kLong_ms ? kRounds : 1;
    for (int round = 1; round < rounds && tried.size() > 1; ++round)
      for (Candidate& one : tried) one.ms = std::min(one.ms, milliseconds(timer, operands, one.plan));
    const float enough_ms = std::ranges::min(tried, {}, &Candidate::ms).ms / kWorthMemory;
    std::erase_if(tried, [&](const Candidate& one) { return one.ms > enough_ms; });
    const auto bytes = [this](const Candidate& one) { return graph_->get_workspace_size_plan_at_index(one.plan); };
    chosen_ = std::ranges::min(tried, {}, bytes).plan;
  }

  /// Also whether there is the memory for it; where runs must be repeatable, that has no say in the choice.
  bool can_execute(const ConvolutionOperands& operands, int64_t plan) {
    try {
      return execute(operands, plan);
    } catch (const Error& error) {
      if (device_.deterministic()) throw;
      refusal_ = error.what();
      return false;
    }
  }

  /// Whether this device has computed for a while.
  struct Warmth {
    explicit Warmth(Device&) {}
    bool is_warm = false;
  };

  void warm_up(const ConvolutionOperands& operands, int64_t plan) {
    auto& warmth = device_.attached<Warmth>();
    if (std::exchange(warmth.is_warm, true)) return;
    const auto begun = Clock::now();
    do {
      execute(operands, plan);
      device_.synchronize();
    } while (seconds_since(begun) < kWarmUp_s);
  }

  float milliseconds(CudaTimer& timer, const ConvolutionOperands& operands, int64_t plan) {
    const float once = milliseconds_of(timer, operands, plan, 1);
    if (once > kShort_ms) return once;
    execute(operands, plan);
    return milliseconds_of(timer, operands, plan, 4);
  }

  /// Of one run, when several are given one after the other.
  float milliseconds_of(CudaTimer& timer, const ConvolutionOperands& operands, int64_t plan, int runs) {
    timer.start(device_.stream());
    for (int run = 0; run < runs; ++run) execute(operands, plan);
    timer.stop(device_.stream());
    return timer.milliseconds() / static_cast<float>(runs);
  }

  CudaDevice& device_;
  std::unique_ptr<fe::graph::Graph> graph_;
  std::vector<int64_t> candidates_;  ///< best first
  std::optional<int64_t> chosen_;    ///< at the first run
  std::string refusal_;
};

}  // namespace

ConvolutionOffer make_convolution_plan(Device& device, const ConvolutionProblem& problem) {
  const CudaDevice& gpu = CudaDevice::of(device);
  const ConvolutionRules rules{.deterministic = gpu.deterministic(), .tf32 = gpu.tf32()};
  Offer offer = offer_of(problem, rules, rules.deterministic ? kTriedInOrder : kTried, [&](fe::graph::Graph& graph) {
    const auto status = graph.validate();
    return status.is_bad() ? status : graph.build_operation_graph(cudnn_handle(device));
  });
  if (offer.plans.empty()) return {.plan = nullptr, .refusal = offer.refusal};
  return {.plan = std::make_unique<CudnnPlan>(device, std::move(offer.graph), std::move(offer.plans)), .refusal = ""};
}

int count_convolution_algorithms(const ConvolutionProblem& problem, const ConvolutionRules& rules,
                                 std::string_view gpu) {
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
