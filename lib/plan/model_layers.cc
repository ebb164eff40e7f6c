#include "plan/model_layers.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "autograd/tape.h"
#include "device/device.h"
#include "device/operator_log.h"

namespace dptrain::plan {
namespace {

/// One sample without values, because nothing is computed with them.
struct OneSample {
  Shape shape;  ///< without the dimension of samples
  Tensor x;     ///< images [1, C, H, W], or tokens i32 [1, S]
  nn::TextInputs text;
};

OneSample sample_of(const models::ModelInput& input, Device& device) {
  if (!input.text) {
    const Shape& image = input.image;
    return {.shape = image, .x = Tensor::empty(device, {1, image[0], image[1], image[2]}), .text = {}};
  }
  const auto numbers = [&](const Shape& shape) { return Tensor::empty(device, shape, {.dtype = DType::i32}); };
  const int64_t tokens = input.text->sequence;
  return {.shape = {tokens},
          .x = numbers({1, tokens}),
          .text = {.segments = numbers({1, tokens}),
                   .positions = numbers({1, tokens}),
                   .lengths = numbers({1}),
                   .firsts = numbers({1})}};
}

/// The shape of one sample [1, ...] without its first dimension. A head's output for its tokens, [S, V], has no
/// dimension of samples.
Shape without_samples(const Shape& shape) { return shape[0] == 1 ? Shape(shape.dimensions().subspan(1)) : shape; }

/// The counts of a component or of a whole model.
template <class Parameters>
ParameterCounts counts_of(Parameters& of) {
  ParameterCounts counts;
  of.visit_parameters([&](const std::string&, const Parameter& parameter, const nn::Initializer&) {
    const int64_t elements = parameter.shape().elements();
    counts.all += elements;
    if (parameter.is_frozen()) counts.frozen += elements;
  });
  return counts;
}

std::vector<UpdateShare> updates_of(nn::Model& model) {
  std::vector<UpdateShare> shares;
  model.visit_parameters([&](const std::string&, const Parameter& parameter, const nn::Initializer&) {
    if (parameter.is_frozen()) return;
    auto share = std::ranges::find(shares, parameter.update_factors(), &UpdateShare::factors);
    if (share == shares.end()) share = shares.insert(share, {.factors = parameter.update_factors()});
    share->elements += parameter.shape().elements();
  });
  return shares;
}

/// The common beginning of all its parameters' names, up to a dot.
std::string head_name(nn::Head& head) {
  std::vector<std::string> names;
  head.visit_parameters(
      [&](const std::string& name, const Parameter&, const nn::Initializer&) { names.push_back(name); });
  std::string begins = names.empty() ? "" : names.front();
  for (const std::string& name : names)
    while (!name.starts_with(begins + ".") && !begins.empty())
      begins.resize(begins.find('.') == begins.npos ? 0 : begins.rfind('.'));
  return begins.empty() ? "head" : begins;
}

double flops_of(const OperatorLog& log) {
  return std::accumulate(log.costs().begin(), log.costs().end(), 0.0,
                         [](double sum, const OperatorCost& cost) { return sum + cost.flops; });
}

}  // namespace

int64_t ModelLayers::parameters() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0},
                         [](int64_t sum, const ModelLayer& layer) { return sum + layer.parameters; });
}

int64_t ModelLayers::frozen() const {
  return std::accumulate(layers.begin(), layers.end(), int64_t{0},
                         [](int64_t sum, const ModelLayer& layer) { return sum + layer.frozen; });
}

double ModelLayers::flops() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const ModelLayer& layer) { return sum + layer.flops; });
}

ParameterCounts parameter_counts(nn::Model& model) { return counts_of(model); }

ModelLayers layers_of(const models::ModelSpec& spec, const models::ModelInput& input) {
  // Shapes and products are the same on any device.
  const auto device = open_device({DeviceKind::cpu, 0}, {.counts_only = true});
  const auto model = spec.build({.device = *device}, input);
  model->place(*device, {});
  const OneSample sample = sample_of(input, *device);
  Tape tape(Tape::Mode::forget);
  const nn::ForwardContext context{.tape = tape,
                                   .epoch = Tensor::empty(*device, {1}, {.dtype = DType::i32}),
                                   .sample_ids = Tensor::empty(*device, {1}, {.dtype = DType::i64}),
                                   .text = sample.text};
  OperatorLog& log = *device->operator_log();
  ModelLayers all{.input = sample.shape, .layers = {}, .updates = updates_of(*model)};
  for (const nn::RunningState* state : model->states()) all.running_state += state->shape.elements();
  const auto add = [&](std::string name, nn::Component& component, const std::vector<Variable>& outputs) {
    const ParameterCounts counts = counts_of(component);
    ModelLayer layer{.name = std::move(name), .outputs = {}, .parameters = counts.all, .frozen = counts.frozen};
    for (const Variable& output : outputs) layer.outputs.push_back(without_samples(output.value().shape()));
    layer.flops = flops_of(log);
    log.clear();
    all.layers.push_back(std::move(layer));
  };
  Variable value = tape.input(sample.x);
  log.clear();
  for (int i = 0; i < model->stage_count(); ++i) {
    value = model->stage(i).forward(value, context);
    add(model->stage_name(i), model->stage(i), {value});
  }
  if (nn::Head* head = model->head(); head != nullptr) add(head_name(*head), *head, head->outputs(value, context));
  return all;
}

}  // namespace dptrain::plan
