#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/layers.h"

// The residual blocks of a net that is a list of layers.

namespace dptrain::models {

/// A layer, or a few that are one pass, with its name in the list around it; no name where its parts have their own.
struct NamedLayer {
  std::string name;
  std::unique_ptr<nn::Module> module;
};
using NamedLayers = std::vector<NamedLayer>;

/// layers(x) + shortcut(x), and max(0, .) of that with `relu`. With `ends_in_norm` the layers end in a batch norm, made
/// with the same `relu`, that does it in its pass. Of text a shortcut leaves out the rows that the layers leave out.
class Residual final : public nn::Module {
 public:
  struct Options {
    bool relu = false;
    bool ends_in_norm = false;
  };
  Residual(NamedLayers layers, NamedLayers shortcut, const Options& options);

  Variable forward(const Variable& x, const nn::ForwardContext& context) override;

  /// What is added, for a sum in another pass; not where a batch norm does it.
  struct Summands {
    Variable layers, shortcut;
  };
  Summands summands(const Variable& x, const nn::ForwardContext& context);
  /// Takes out a dropout that the layers end in, for that pass to drop; null where they end in another layer.
  nn::Dropout* take_last_dropout();

 private:
  bool relu_;
  std::vector<nn::Module*> layers_;
  std::vector<nn::Module*> shortcut_;
  nn::BatchNorm* norm_ = nullptr;
};

/// norm(layers(x) + shortcut(x)): the sum, and a dropout that ends the layers, in the pass of the norm. Parameters have
/// the names that a residual and a norm have one behind the other in a list.
class NormedResidual final : public nn::Module {
 public:
  NormedResidual(NamedLayer residual, NamedLayer norm);

  Variable forward(const Variable& x, const nn::ForwardContext& context) override;

 private:
  Residual& residual_;
  nn::LayerNorm& norm_;
  nn::Dropout* dropout_;  ///< null: none
};

/// layers(x) with x added to its first channels, averaged over 2x2 where the layers halve the image (`halves`); and
/// max(0, .) of that with `relu`. `ends_in_norm` as of a Residual.
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
