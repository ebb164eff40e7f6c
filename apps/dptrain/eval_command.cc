#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "commands.h"
#include "output.h"
#include "read_experiment.h"
#include "train/evaluation_weights.h"
#include "train/metrics.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/trainer.h"
#include "train/training_identity.h"

namespace dptrain::app {
namespace {

struct EvalFlags {
  ConfigFlags common;
  std::string checkpoint;
};

int evaluate_with(const EvalFlags& flags) {
  ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  train::Experiment& experiment = read.experiment;
  const auto file = train::find_weights(flags.checkpoint, tell_of_damage);
  train::require_same_model(experiment.model, file);
  const auto weights = train::read_evaluation_weights(file);
  const Datasets data = experiment.dataset.open();
  train::require_model_fits(experiment, *data.train);
  train::require_same_input(experiment, *data.train, file);
  experiment.initial_weights = std::nullopt;
  experiment.split = {};
  train::Trainer trainer(experiment, data);
  trainer.load_weights(weights, file.string());
  const train::Pass pass = trainer.evaluate();
  if (!std::isfinite(pass.score.mean_loss()))
    throw Error(ExitCode::diverged, Mistake{.where = file.string(),
                                            .expected = "expected weights with a finite loss",
                                            .got = fmt::format("{}", pass.score.mean_loss()),
                                            .advice = "use an earlier checkpoint"});
  nlohmann::ordered_json document = {{"schema", 1},
                                     {"checkpoint", flags.checkpoint},
                                     {"loss", pass.score.mean_loss()},
                                     {"accuracy", pass.score.accuracy()},
                                     {"samples", pass.score.samples},
                                     {"seconds", pass.seconds},
                                     {"weights_hash", train::weights_hash(weights)}};
  for (const auto& [name, loss] : train::output_losses(pass.score)) document[name] = loss;
  if (flags.common.json)
    write_output(document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  else if (!flags.common.quiet)
    write_output(fmt::format("loss {:.4f}, accuracy {:.2f} % of {} samples, in {:.2f} s\n", pass.score.mean_loss(),
                             100 * pass.score.accuracy(), pass.score.samples, pass.seconds));
  return 0;
}

}  // namespace

Run add_eval_command(CLI::App& command) {
  auto flags = std::make_shared<EvalFlags>();
  flags->common.add_to(command);
  command
      .add_option("--checkpoint", flags->checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->type_name("CHECKPOINT");
  return [flags] { return evaluate_with(*flags); };
}

}  // namespace dptrain::app
