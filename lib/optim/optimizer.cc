#include "optim/optimizer.h"

#include "config/f32_range.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace dptrain::optim {
namespace {

SgdSettings read_sgd(ConfigReader& options) {
  SgdSettings settings;
  settings.momentum = options.number(
      "momentum", 0.0, {.min = 0, .max = 1, .exclusive_max = true, .help = "how much of the last step goes on"});
  settings.weight_decay = options.number(
      "weight_decay", 0.0, {.min = 0, .max = kMostF32, .help = "times the weight, added to its gradient"});
  settings.nesterov = options.boolean("nesterov", false, "look ahead along the velocity; needs momentum");
  if (settings.nesterov && settings.momentum == 0)
    options.mistake("nesterov", "nesterov needs a momentum", "momentum 0", "write for instance momentum: 0.9");
  return settings;
}

/// `weight_decay` is AdamW's default in PyTorch, 0.01, or Adam's, 0.
AdamSettings read_adam(ConfigReader& options, bool decoupled) {
  const char* decay_help = decoupled ? "how much of a weight is taken off each step, times the learning rate"
                                     : "times the weight, added to its gradient";
  AdamSettings settings{.decoupled = decoupled};
  const auto betas = options.numbers("betas", {settings.beta1, settings.beta2},
                                     {.min = 0,
                                      .max = 1,
                                      .exclusive_max = true,
                                      .help = "how much of the running means of gradient and square stays"});
  if (betas.size() == 2) {
    settings.beta1 = betas[0];
    settings.beta2 = betas[1];
  } else {
    options.mistake("betas", "expected two numbers", std::to_string(betas.size()), "write for instance [0.9, 0.999]");
  }
  settings.epsilon =
      options.number("eps", settings.epsilon, {.min = kLeastF32, .max = kMostF32, .help = "added to the divisor"});
  settings.weight_decay =
      options.number("weight_decay", decoupled ? 0.01 : 0.0, {.min = 0, .max = kMostF32, .help = decay_help});
  return settings;
}

ConfigChoice adam_choice(OptimizerSpec& spec, const char* name, const char* help, bool decoupled) {
  return {name, help, [&spec, decoupled](ConfigReader& options) {
            const AdamSettings settings = read_adam(options, decoupled);
            spec.make = [settings](const FlatWeights& flat) { return std::make_unique<Adam>(flat, settings); };
            spec.weight_decay = settings.weight_decay;
          }};
}

}  // namespace

OptimizerSpec read_optimizer(ConfigReader& config) {
  OptimizerSpec spec;
  // The table of optimizers: name, one-line help, options.
  const std::vector<ConfigChoice> choices = {
      {"sgd", "stochastic gradient descent, with momentum, Nesterov and weight decay",
       [&spec](ConfigReader& options) {
         const SgdSettings settings = read_sgd(options);
         spec.make = [settings](const FlatWeights& flat) { return std::make_unique<Sgd>(flat, settings); };
         spec.weight_decay = settings.weight_decay;
       }},
      adam_choice(spec, "adam", "steps scaled by running means of gradients and their squares", false),
      adam_choice(spec, "adamw", "Adam with a weight decay of its own, apart from the gradient", true),
  };
  spec.name = config.named("optimizer", choices, "sgd", "how weights follow from gradients");
  return spec;
}

}  // namespace dptrain::optim
