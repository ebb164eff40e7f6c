#include "models/residual_layers.h"

#include <utility>

#include "autograd/elementwise.h"
#include "autograd/pool2d.h"
#include "models/self_attention.h"

namespace dptrain::models {
namespace {

Variable through(const std::vector<nn::Module*>& layers, Variable value, const nn::ForwardContext& context) {
  for (nn::Module* layer : layers) value = layer->forward(value, context);
  return value;
}

nn::BatchNorm& take_last_norm(std::vector<nn::Module*>& layers) {
  auto& norm = dynamic_cast<nn::BatchNorm&>(*layers.back());
  layers.pop_back();
  return norm;
}

}  // namespace

Residual::Residual(NamedLayers layers, NamedLayers shortcut, const Options& options) : relu_(options.relu) {
  for (auto& [name, layer] : layers) layers_.push_back(&add_child(std::move(name), std::move(layer)));
  for (auto& [name, layer] : shortcut) shortcut_.push_back(&add_child(std::move(name), std::move(layer)));
  if (options.ends_in_norm) norm_ = &take_last_norm(layers_);
}

Variable Residual::forward(const Variable& x, const nn::ForwardContext& context) {
  const auto [y, added] = summands(x, context);
  if (norm_ != nullptr) return norm_->forward(y, added, context);
  const Variable sum = autograd::add(y, added);
  return relu_ ? autograd::relu(sum) : sum;
}

Residual::Summands Residual::summands(const Variable& x, const nn::ForwardContext& context) {
  const Variable added = through(shortcut_, x, context), y = through(layers_, x, context);
  return {.layers = rows_beside(added, y, context), .shortcut = rows_beside(y, added, context)};
}

nn::Dropout* Residual::take_last_dropout() {
  auto* dropout = layers_.empty() ? nullptr : dynamic_cast<nn::Dropout*>(layers_.back());
  if (dropout != nullptr) layers_.pop_back();
  return dropout;
}

NormedResidual::NormedResidual(NamedLayer residual, NamedLayer norm)
    : residual_(dynamic_cast<Residual&>(add_child(std::move(residual.name), std::move(residual.module)))),
      norm_(dynamic_cast<nn::LayerNorm&>(add_child(std::move(norm.name), std::move(norm.module)))),
      dropout_(residual_.take_last_dropout()) {}

Variable NormedResidual::forward(const Variable& x, const nn::ForwardContext& context) {
  const auto [y, added] = residual_.summands(x, context);
  return dropout_ != nullptr ? norm_.forward(y, *dropout_, added, context) : norm_.forward(y, added, context);
}

PaddedResidual::PaddedResidual(NamedLayers layers, bool halves, const Residual::Options& options)
    : halves_(halves), relu_(options.relu) {
  for (auto& [name, layer] : layers) layers_.push_back(&add_child(std::move(name), std::move(layer)));
  if (options.ends_in_norm) norm_ = &take_last_norm(layers_);
}

Variable PaddedResidual::forward(const Variable& x, const nn::ForwardContext& context) {
  const Variable y = through(layers_, x, context);
  const Variable added = halves_ ? autograd::average_pool2d(x, {.kernel = 2, .stride = 2, .ceil = true}) : x;
  if (norm_ != nullptr) return norm_->forward(y, added, context);
  const Variable sum = autograd::add_padded(y, added);
  return relu_ ? autograd::relu(sum) : sum;
}

}  // namespace dptrain::models
