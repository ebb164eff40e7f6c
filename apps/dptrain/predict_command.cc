#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "commands.h"
#include "output.h"
#include "read_experiment.h"
#include "train/predictor.h"
#include "train/run_directory.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct PredictFlags {
  ConfigFlags common;
  std::string checkpoint;
  std::string input;
  std::optional<size_t> top;
};

/// `class`, `name` if classes have names, and `probability`.
nlohmann::ordered_json class_json(const train::Prediction& prediction, const std::vector<std::string>& class_names) {
  nlohmann::ordered_json object = {{"class", prediction.predicted_class}};
  if (!class_names.empty()) object["name"] = class_names[static_cast<size_t>(prediction.predicted_class)];
  object["probability"] = prediction.probability;
  return object;
}

/// A line of JSON with the most likely class, or with `top` all classes of `likeliest`. Bytes of a file name that
/// aren't UTF-8 become the replacement character.
std::string line_of(const std::filesystem::path& file, int64_t index, std::span<const train::Prediction> likeliest,
                    bool top, const std::vector<std::string>& class_names) {
  nlohmann::ordered_json line = {{"input", file.string()}, {"index", index}};
  line.update(class_json(likeliest.front(), class_names));
  if (top)
    for (const train::Prediction& one : likeliest) line["top"].push_back(class_json(one, class_names));
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int predict_with(const PredictFlags& flags) {
  const ReadExperiment read(flags.common);
  if (read.dumped) return 0;
  const ImageFiles images(flags.input);
  train::Predictor predictor(read.experiment, train::find_weights(flags.checkpoint, tell_of_damage));
  predictor.predict(images, flags.top.value_or(1), [&](int64_t index, std::span<const train::Prediction> likeliest) {
    write_output(line_of(images.file_of(index), index, likeliest, flags.top.has_value(), predictor.class_names()));
  });
  return 0;
}

}  // namespace

Run add_predict_command(CLI::App& command) {
  auto flags = std::make_shared<PredictFlags>();
  flags->common.add_to(command, {.json = "has no effect in this command, which prints JSON lines anyway"});
  command
      .add_option("--checkpoint", flags->checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->check(refuse_empty)
      ->type_name("CHECKPOINT");
  command
      .add_option("--input", flags->input,
                  "an IDX file of images (plain or gzip), a PNG or JPEG file, or a folder of PNG and JPEG files and of "
                  "such folders, in the order of their paths")
      ->required()
      ->check(refuse_empty)
      ->type_name("PATH");
  command.add_option("--top", flags->top, "the N likeliest classes of each image, instead of the likeliest alone")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("N");
  return [flags] { return predict_with(*flags); };
}

}  // namespace dptrain::app
