#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers.h"

// The residual blocks of a net that is a list of layers.

namespace dptrain::models {

/// A layer, or a few layers that are one pass, with its name in the list around it. The name is empty if its parts have
/// their own names.
struct NamedLayer {
  std::string name;
  std::unique_ptr<nn::Module> module;
};
using NamedLayers = std::vector<NamedLayer>;

/// layers(x) + shortcut(x), followed by max(0, .) with `relu`. With `ends_in_norm`, the layers end in a batch norm,
/// made with the same `relu`, that computes the sum in its pass. For text, the shortcut leaves out the rows that the
/// layers leave out.
class Residual final : public nn::Module {
 public:
  struct Options {
    bool relu = false;
    bool ends_in_norm = false;
  };
  Residual(NamedLayers layers, NamedLayers shortcut, const Options& options);

  Variable forward(const Variable& x, const nn::ForwardContext& context) override;

  /// The two sides of the sum, for another layer that adds them. Not to be used if a batch norm adds them.
  struct Summands {
    Variable layers, shortcut;
  };
  Summands summands(const Variable& x, const nn::ForwardContext& context);
  /// Takes out the dropout that ends the layers, for the layer that adds to apply; null if they end in another layer.
  nn::Dropout* take_last_dropout();

 private:
  bool relu_;
  std::vector<nn::Module*> layers_;
  std::vector<nn::Module*> shortcut_;
  nn::BatchNorm* norm_ = nullptr;
};

/// norm(layers(x) + shortcut(x)), where the norm's pass also computes the sum and a dropout that ends the layers.
/// Parameters have the names that a residual and a norm have as neighbors in a list.
class NormedResidual final : public nn::Module {
 public:
  NormedResidual(NamedLayer residual, NamedLayer norm);

  Variable forward(const Variable& x, const nn::ForwardContext& context) override;

 private:
  Residual& residual_;
  nn::LayerNorm& norm_;
  nn::Dropout* dropout_;  ///< null: none
};

/// layers(x) with x added to its first channels, followed by max(0, .) with `relu`. With `halves`, the layers halve the
/// image, and x is averaged over 2x2 before it is added. `ends_in_norm` is the same as for Residual.
class PaddedResidual final : public nn::Module {
 public:
  PaddedResidual(NamedLayers layers, bool halves, const Residual::Options& options);

  Variable forward(const Variable& x, const nn::ForwardContext& context) override;

 private:
  bool halves_;
  bool relu_;
  std::vector<nn::Module*> layers_;
  nn::BatchNorm* norm_ = nullptr;
};

}  // namespace dptrain::models
