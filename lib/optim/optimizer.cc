#include "optim/optimizer.h"

#include "optim/sgd.h"

namespace dptrain::optim {
namespace {

SgdSettings read_sgd(ConfigReader& options) {
  SgdSettings settings;
  settings.momentum = options.number(
      "momentum", 0.0, {.min = 0, .max = 1, .exclusive_max = true, .help = "how much of the last step goes on"});
  settings.weight_decay =
      options.number("weight_decay", 0.0, {.min = 0, .help = "times the weight, added to its gradient"});
  settings.nesterov = options.boolean("nesterov", false, "look ahead along the velocity; needs momentum");
  if (settings.nesterov && settings.momentum == 0)
    options.mistake("nesterov", "nesterov needs a momentum", "momentum 0", "write for instance momentum: 0.9");
  return settings;
}

}  // namespace

OptimizerSpec read_optimizer(ConfigReader& config) {
  OptimizerSpec spec;
  // The table of optimizers: name, one-line help, options.
  const std::vector<ConfigChoice> choices = {
      {"sgd", "stochastic gradient descent, with momentum, Nesterov and weight decay",
       [&spec](ConfigReader& options) {
         const SgdSettings settings = read_sgd(options);
         spec.make = [settings](nn::Model& model) { return std::make_unique<Sgd>(model, settings); };
       }},
  };
  spec.name = config.named("optimizer", choices, "sgd", "how weights follow from gradients");
  return spec;
}

}  // namespace dptrain::optim
