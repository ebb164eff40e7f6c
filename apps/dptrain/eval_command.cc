#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/text_table.h"
#include "commands.h"
#include "output.h"
#include "read_experiment.h"
#include "train/evaluation_weights.h"
#include "train/metrics.h"
#include "train/predictor.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "train/strategy_context.h"
#include "train/trainer.h"
#include "train/training_identity.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

using nlohmann::ordered_json;

struct EvalFlags {
  ConfigFlags common;
  std::string checkpoint;
  bool by_class = false;
};

void require_finite_loss(double loss, const std::filesystem::path& weights) {
  if (std::isfinite(loss)) return;
  throw Error(ExitCode::diverged, Mistake{.where = weights.string(),
                                          .expected = "expected weights with a finite loss",
                                          .got = fmt::format("{}", loss),
                                          .advice = "use an earlier checkpoint"});
}

/// Writes the result as JSON or as a sentence, depending on the flags.
void write(const ConfigFlags& flags, const ordered_json& document) {
  if (flags.json)
    write_output(document.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  else if (!flags.quiet)
    write_output(fmt::format("loss {:.4f}, accuracy {:.2f} % of {} samples, in {:.2f} s\n",
                             document["loss"].get<double>(), 100 * document["accuracy"].get<double>(),
                             document["samples"].get<int64_t>(), document["seconds"].get<double>()));
}

void evaluate(const EvalFlags& flags, train::Experiment& experiment) {
  const auto file = train::find_weights(flags.checkpoint, tell_of_damage);
  train::require_same_model(experiment.model, file);
  const auto weights = train::read_evaluation_weights(file);
  const Datasets data = experiment.dataset.open_whole();
  train::require_model_fits(experiment, *data.train);
  train::require_same_input(experiment, *data.train, file);
  experiment.initial_weights = std::nullopt;
  experiment.split = {};
  train::Trainer trainer(experiment, data);
  trainer.load_weights(weights, file.string());
  const train::Pass pass = trainer.evaluate();
  require_finite_loss(pass.score.mean_loss(), file);
  ordered_json document = {{"schema", 1},
                           {"checkpoint", flags.checkpoint},
                           {"loss", pass.score.mean_loss()},
                           {"accuracy", pass.score.accuracy()},
                           {"samples", pass.score.samples},
                           {"seconds", pass.seconds},
                           {"weights_hash", train::weights_hash(weights)}};
  for (const auto& [name, loss] : train::output_losses(pass.score)) document[name] = loss;
  write(flags.common, document);
}

/// One row per class, with its most likely mistake.
std::vector<ordered_json> classes_json(const train::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const auto or_null = [](const auto& value) { return value ? ordered_json(*value) : ordered_json(nullptr); };
  std::vector<ordered_json> classes;
  for (int64_t one = 0; one < matrix.classes(); ++one) {
    ordered_json& row = classes.emplace_back(ordered_json{{"class", one}});
    if (!names.empty()) row["name"] = names[static_cast<size_t>(one)];
    row.update({{"samples", matrix.samples(one)},
                {"recall", or_null(matrix.recall(one))},
                {"precision", or_null(matrix.precision(one))},
                {"mistaken_for", or_null(matrix.mistaken_for(one))}});
    for (int64_t other = 0; other < matrix.classes(); ++other) row["predicted"].push_back(matrix.at(one, other));
  }
  return classes;
}

void evaluate_classes(const EvalFlags& flags, const train::Experiment& experiment) {
  const auto file = train::find_weights(flags.checkpoint, tell_of_damage);
  train::Predictor predictor(experiment, file);
  const auto begun = Clock::now();
  const train::Predictor::Evaluation evaluation = predictor.evaluate();
  require_finite_loss(evaluation.mean_loss, file);
  const train::ConfusionMatrix& matrix = evaluation.classes;
  write(flags.common, {{"schema", 1},
                       {"checkpoint", flags.checkpoint},
                       {"loss", evaluation.mean_loss},
                       {"accuracy", matrix.accuracy()},
                       {"samples", matrix.all()},
                       {"seconds", seconds_since(begun)},
                       {"weights_hash", predictor.weights_hash()},
                       {"classes", classes_json(matrix, predictor.class_names())}});
  if (!flags.common.json && !flags.common.quiet)
    write_output("\n" + text_table(train::table_of(matrix, predictor.class_names()), terminal_width(STDOUT_FILENO)));
}

int evaluate_with(const EvalFlags& flags) {
  ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  flags.by_class ? evaluate_classes(flags, read.experiment) : evaluate(flags, read.experiment);
  return 0;
}

}  // namespace

Run add_eval_command(CLI::App& command) {
  auto flags = std::make_shared<EvalFlags>();
  flags->common.add_to(command);
  command
      .add_option("--checkpoint", flags->checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->check(refuse_empty)
      ->type_name("CHECKPOINT");
  command.add_flag("--by-class", flags->by_class,
                   "also recall, precision and mistakes of each class of images, computed on the first device");
  return [flags] { return evaluate_with(*flags); };
}

}  // namespace dptrain::app
