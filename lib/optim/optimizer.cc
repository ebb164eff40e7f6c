#include "optim/optimizer.h"

#include "config/f32_range.h"
#include "optim/adam.h"
#include "optim/lamb.h"
#include "optim/lars.h"
#include "optim/sgd.h"

namespace dptrain::optim {
namespace {

constexpr const char* kEpsilonHelp = "added to the divisor";

double read_momentum(ConfigReader& options, double otherwise) {
  return options.number("momentum", otherwise,
                        {.min = 0, .max = 1, .exclusive_max = true, .help = "share of the last step that is kept"});
}

/// Reads a weight decay that is added to the gradient.
double read_joint_decay(ConfigReader& options) {
  return options.number(
      "weight_decay", 0.0,
      {.min = 0, .max = kMostF32, .help = "weight decay: this times the weight is added to its gradient"});
}

bool read_nesterov(ConfigReader& options, double momentum) {
  const bool nesterov = options.boolean("nesterov", false, "look ahead along the velocity; needs momentum");
  if (nesterov && momentum == 0)
    options.mistake("nesterov", "nesterov needs a momentum", "momentum 0", "write for instance momentum: 0.9");
  return nesterov;
}

bool read_adapts_vectors(ConfigReader& options) {
  return options.boolean("adapt_vectors", false,
                         "whether biases and the weights of norms are scaled by their norms, too");
}

SgdSettings read_sgd(ConfigReader& options) {
  SgdSettings settings;
  settings.momentum = read_momentum(options, settings.momentum);
  settings.weight_decay = read_joint_decay(options);
  settings.nesterov = read_nesterov(options, settings.momentum);
  return settings;
}

LarsSettings read_lars(ConfigReader& options) {
  LarsSettings settings;
  settings.momentum = read_momentum(options, settings.momentum);
  settings.weight_decay = read_joint_decay(options);
  settings.nesterov = read_nesterov(options, settings.momentum);
  settings.trust_coefficient =
      options.number("trust_coefficient", settings.trust_coefficient,
                     {.min = 0,
                      .max = kMostF32,
                      .exclusive_min = true,
                      .help = "norm of a step (without momentum, at a rate of 1) over the norm of a layer's weights"});
  settings.epsilon = options.number("eps", settings.epsilon, {.min = 0, .max = kMostF32, .help = kEpsilonHelp});
  settings.adapts_vectors = read_adapts_vectors(options);
  return settings;
}

void read_betas(ConfigReader& options, double& beta1, double& beta2) {
  const auto betas = options.numbers("betas", {beta1, beta2},
                                     {.min = 0,
                                      .max = 1,
                                      .exclusive_max = true,
                                      .help = "decay rates of the running means of the gradient and of its square"});
  if (betas.size() == 2) {
    beta1 = betas[0];
    beta2 = betas[1];
  } else {
    options.mistake("betas", "expected two numbers", std::to_string(betas.size()), "write for instance [0.9, 0.999]");
  }
}

LambSettings read_lamb(ConfigReader& options) {
  LambSettings settings;
  read_betas(options, settings.beta1, settings.beta2);
  settings.epsilon = options.number("eps", settings.epsilon, {.min = kLeastF32, .max = kMostF32, .help = kEpsilonHelp});
  settings.weight_decay =
      options.number("weight_decay", settings.weight_decay,
                     {.min = 0,
                      .max = kMostF32,
                      .help = "weight decay: this times the weight is added to the step before the step is scaled"});
  settings.adapts_vectors = read_adapts_vectors(options);
  return settings;
}

/// The default of `weight_decay` is PyTorch's: 0.01 for AdamW, 0 for Adam.
AdamSettings read_adam(ConfigReader& options, bool decoupled) {
  const char* decay_help = decoupled ? "share of a weight that each step takes off, times the learning rate"
                                     : "weight decay: this times the weight is added to its gradient";
  AdamSettings settings{.decoupled = decoupled};
  read_betas(options, settings.beta1, settings.beta2);
  settings.epsilon = options.number("eps", settings.epsilon, {.min = kLeastF32, .max = kMostF32, .help = kEpsilonHelp});
  settings.weight_decay =
      options.number("weight_decay", decoupled ? 0.01 : 0.0, {.min = 0, .max = kMostF32, .help = decay_help});
  return settings;
}

/// Makes an optimizer of type `Made` with the settings that `read` returns.
template <class Made, class Read>
ConfigChoice choice_of(OptimizerSpec& spec, const char* name, const char* help, const Read& read) {
  return {name, help, [&spec, read](ConfigReader& options) {
            const auto settings = read(options);
            spec.make = [settings](const FlatWeights& flat) { return std::make_unique<Made>(flat, settings); };
            spec.weight_decay = settings.weight_decay;
            spec.measures = Made::kMeasures;
          }};
}

}  // namespace

OptimizerSpec read_optimizer(ConfigReader& config) {
  OptimizerSpec spec;
  // The table of optimizers: name, one-line help, options.
  const std::vector<ConfigChoice> choices = {
      choice_of<Sgd>(spec, "sgd", "stochastic gradient descent, with momentum, Nesterov and weight decay", read_sgd),
      choice_of<Adam>(spec, "adam", "steps scaled by running means of gradients and their squares",
                      [](ConfigReader& options) { return read_adam(options, false); }),
      choice_of<Adam>(spec, "adamw", "Adam with a weight decay of its own, apart from the gradient",
                      [](ConfigReader& options) { return read_adam(options, true); }),
      choice_of<Lars>(spec, "lars", "SGD whose steps are scaled, layer by layer, by the norms of weights and gradients",
                      read_lars),
      choice_of<Lamb>(spec, "lamb", "Adam's steps scaled, layer by layer, to the length of the weights", read_lamb),
  };
  spec.name = config.named("optimizer", choices, "sgd", "how weights are updated from gradients");
  return spec;
}

}  // namespace dptrain::optim
