#include "parallel/gradient_compression.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/random.h"
#include "ops/add.h"
#include "parallel/comm_buffer.h"
#include "parallel/half_sum.h"
#include "parallel/power_sgd_sum.h"
#include "parallel/two_bit_sum.h"

namespace dptrain::parallel {
namespace {

using Method = CompressionOptions::Method;

std::string direction_name(const Parameter& parameter) { return "direction." + parameter.name(); }

/// Standard normal numbers, the same on all ranks.
Tensor first_directions(Device& device, const FactoredShape& shape, const KeyedRandom& random) {
  std::vector<float> values(static_cast<size_t>(shape.rank * shape.columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = random.normal(i);
  return Tensor::from(device, {shape.rank, shape.columns}, values, MemoryPurpose::communication);
}

const nn::NamedValues* find(const std::vector<nn::NamedValues>& state, const std::string& name) {
  const auto found = std::ranges::find(state, name, &nn::NamedValues::name);
  return found == state.end() ? nullptr : &*found;
}

}  // namespace

std::map<std::string, std::vector<float>> unsent_gradients(const TrainingState& state) {
  const std::string prefix = fmt::format("{}.", kResidual);
  const double scale = state.loss_scale ? state.loss_scale->scale : 1;
  std::map<std::string, std::vector<float>> sums;
  for (const nn::NamedValues& tensor : state.compression) {
    if (!tensor.name.starts_with(prefix)) continue;
    // Names have the form "residual.1.conv1.weight".
    std::vector<float>& sum = sums[tensor.name.substr(tensor.name.find('.', prefix.size()) + 1)];
    sum.resize(tensor.values.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(scale * tensor.values[i]);
  }
  return sums;
}

GradientCompression::GradientCompression(const Context& context, const CompressionOptions& options)
    : context_(context), options_(options), directions_(context.model.parameters().size()) {
  const nn::Model& model = context.model;
  if (options.keeps_residual())
    residual_ = Tensor::zeros(model.device(), model.gradients().shape(), {.purpose = MemoryPurpose::communication});
  if (options.method != Method::powersgd) return;
  for (const Parameter* parameter : model.parameters()) {
    if (!is_factored(parameter->shape(), options.rank)) continue;
    const auto index = static_cast<uint32_t>(parameter->index());
    directions_[index] = first_directions(model.device(), FactoredShape::of(parameter->shape(), options.rank),
                                          KeyedRandom(context.seed, RandomPurpose::compression, 0, index));
  }
}

std::unique_ptr<BucketSum> GradientCompression::sum_of(const Bucket& bucket, int priority) const {
  const Tensor gradients = context_.model.gradients().window(bucket.begin, {bucket.end - bucket.begin}, Layout::plain);
  switch (options_.method) {
    case Method::bf16: return std::make_unique<HalfSum>(context_.communicator, gradients, DType::bf16, priority);
    case Method::fp16: return std::make_unique<HalfSum>(context_.communicator, gradients, DType::f16, priority);
    case Method::powersgd: return power_sgd_sum(bucket);
    case Method::two_bit: return two_bit_sum(bucket);
    case Method::none: break;
  }
  return std::make_unique<PlainSum>(context_.model, context_.communicator,
                                    std::vector<PlainSum::Part>{{.begin = bucket.begin, .end = bucket.end}}, priority);
}

bool GradientCompression::can_be_recorded() const {
  const bool is_half = options_.method == Method::bf16 || options_.method == Method::fp16;
  const DType format = options_.method == Method::bf16 ? DType::bf16 : DType::f16;
  // fp16 sums its bounds in f32.
  return is_half && context_.communicator.can_be_recorded(format) && context_.communicator.can_be_recorded(DType::f32);
}

bool GradientCompression::is_alike_everywhere() const {
  return options_.method != Method::powersgd || context_.model.device().kind() == DeviceKind::cpu;
}

std::string GradientCompression::residual_prefix(int rank) const {
  return fmt::format("{}.{}.", context_.residual_name, rank);
}

Tensor GradientCompression::part(const Tensor& flat, const Parameter& parameter) const {
  return flat.window(context_.model.offset(parameter), parameter.shape(), parameter.layout());
}

std::unique_ptr<BucketSum> GradientCompression::two_bit_sum(const Bucket& bucket) const {
  TwoBitSum::Options options{.entries = {}, .threshold = options_.threshold, .loss_factor = context_.loss_factor};
  for (int p = bucket.first_parameter; p < bucket.end_parameter; ++p) {
    const Parameter& parameter = *context_.model.parameters()[static_cast<size_t>(p)];
    options.entries.push_back({.gradient = parameter.gradient(), .residual = part(residual_, parameter)});
  }
  return std::make_unique<TwoBitSum>(context_.communicator, std::move(options));
}

std::unique_ptr<BucketSum> GradientCompression::power_sgd_sum(const Bucket& bucket) const {
  PowerSgdSum::Options options{.matrices = {}, .whole = {}, .loss_factor = context_.loss_factor};
  for (int p = bucket.first_parameter; p < bucket.end_parameter; ++p) {
    const Parameter& parameter = *context_.model.parameters()[static_cast<size_t>(p)];
    const Tensor& directions = directions_[static_cast<size_t>(p)];
    if (directions.defined())
      options.matrices.push_back(
          {.gradient = parameter.gradient(), .residual = part(residual_, parameter), .directions = directions});
    else
      options.whole.push_back(parameter.gradient());
  }
  return std::make_unique<PowerSgdSum>(context_.communicator, std::move(options));
}

std::vector<nn::NamedValues> GradientCompression::gather_state() {
  std::vector<nn::NamedValues> state;
  if (!residual_.defined()) return state;
  Communicator& communicator = context_.communicator;
  if (communicator.rank() != 0) {
    communicator.send(comm_buffer(residual_), 0);
    return state;
  }
  const Tensor others = Tensor::empty(residual_.device(), residual_.shape(), {.purpose = MemoryPurpose::workspace});
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (rank > 0) communicator.receive(comm_buffer(others), rank);
    auto of_rank = nn::values_by_parameter(context_.model, rank == 0 ? residual_ : others, residual_prefix(rank));
    std::ranges::move(of_rank, std::back_inserter(state));
  }
  for (const Parameter* parameter : context_.model.parameters())
    if (const Tensor& directions = directions_[static_cast<size_t>(parameter->index())]; directions.defined())
      state.push_back({direction_name(*parameter), directions.shape(), directions.values()});
  return state;
}

void GradientCompression::load_state(const std::vector<nn::NamedValues>& state) {
  if (residual_.defined()) load_residuals(state);
  for (const Parameter* parameter : context_.model.parameters()) {
    const Tensor& directions = directions_[static_cast<size_t>(parameter->index())];
    const nn::NamedValues* saved = find(state, direction_name(*parameter));
    if (directions.defined() && saved != nullptr && saved->shape == directions.shape())
      directions.copy_from(Tensor::from(directions.device(), saved->shape, saved->values, MemoryPurpose::workspace));
  }
}

void GradientCompression::load_residuals(const std::vector<nn::NamedValues>& state) {
  const nn::Model& model = context_.model;
  const int own = context_.communicator.rank();
  int saved = 0;
  while (find(state, residual_prefix(saved) + model.parameters()[0]->name()) != nullptr) ++saved;
  if (saved == 0) return;
  if (saved == context_.communicator.size())
    return nn::load_by_parameter(model, residual_, state, residual_prefix(own));
  residual_.fill_zero();
  if (own != 0) return;
  const Tensor one = Tensor::zeros(residual_.device(), residual_.shape(), {.purpose = MemoryPurpose::workspace});
  for (int rank = 0; rank < saved; ++rank) {
    nn::load_by_parameter(model, one, state, residual_prefix(rank));
    ops::add_into(residual_, one);
  }
}

}  // namespace dptrain::parallel
