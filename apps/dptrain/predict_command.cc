#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "read_experiment.h"
#include "train/predictor.h"
#include "train/run_directory.h"

namespace dptrain::app {
namespace {

struct PredictFlags {
  ConfigFlags common;
  std::string checkpoint;
  std::string input;
};

/// A line of JSON, `name` of the class in it where classes have names. What isn't UTF-8 in a file's name is written
/// with its replacement character.
std::string line_of(const std::filesystem::path& file, int64_t index, const train::Prediction& prediction,
                    const std::vector<std::string>& class_names) {
  nlohmann::ordered_json line = {{"input", file.string()}, {"index", index}, {"class", prediction.predicted_class}};
  if (!class_names.empty()) line["name"] = class_names[static_cast<size_t>(prediction.predicted_class)];
  line["probability"] = prediction.probability;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int predict_with(const PredictFlags& flags) {
  const ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  const ImageFiles images(flags.input);
  train::Predictor predictor(read.experiment, train::find_weights(flags.checkpoint, tell_of_damage));
  predictor.predict(images, [&](int64_t index, const train::Prediction& prediction) {
    write_output(line_of(images.file_of(index), index, prediction, predictor.class_names()));
  });
  return 0;
}

}  // namespace

Run add_predict_command(CLI::App& command) {
  auto flags = std::make_shared<PredictFlags>();
  flags->common.add_to(command, {.json = "takes no part in this command, which prints JSON lines anyway"});
  command
      .add_option("--checkpoint", flags->checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->type_name("CHECKPOINT");
  command
      .add_option("--input", flags->input,
                  "an IDX file of images (plain or gzip), a PNG file, or a folder of PNG files in the order of their "
                  "names")
      ->required()
      ->type_name("PATH");
  return [flags] { return predict_with(*flags); };
}

}  // namespace dptrain::app
