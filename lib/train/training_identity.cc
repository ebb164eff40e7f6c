#include "train/training_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_document.h"
#include "config/config_reader.h"

namespace dptrain::train {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kLayers = "layers";
constexpr const char* kDataset = "dataset";
constexpr const char* kVocabulary = "vocabulary";
constexpr const char* kClassNames = "class_names";
constexpr const char* kSamples = "samples";  ///< of the training set, without those held out
constexpr const char* kFreeze = "freeze";
constexpr const char* kNoneFrozen = "none";

std::string option_name(const std::string& of, const std::string& option) { return of + "." + option; }

/// Whether a name is that of an option. Manifests got options later than the things that they belong to, so older
/// checkpoints don't have them.
bool is_option(const std::string& name) { return name.find('.') != std::string::npos; }

void add_options(TrainingIdentity& identity, const std::string& of, const ResolvedOptions& options) {
  for (const auto& [option, value] : options) identity.emplace_back(option_name(of, option), value);
}

/// The vocabulary of a data set. Tokens of a text stand for its pieces; images and made-up tokens have no vocabulary.
std::optional<std::string> vocabulary_of(const Dataset& data) {
  const auto* text = dynamic_cast<const TextDataset*>(&data);
  if (text == nullptr || text->vocabulary_digest().empty()) return std::nullopt;
  return fmt::format("{} pieces {}", text->vocabulary_size(), text->vocabulary_digest());
}

/// The meaning of a class's number, if classes have names.
std::optional<std::string> class_names_of(const Dataset& data) {
  const auto* images = dynamic_cast<const ImageDataset*>(&data);
  if (images == nullptr || images->class_names().empty()) return std::nullopt;
  return fmt::format("{}", fmt::join(images->class_names(), "/"));  // no folder name contains this
}

std::vector<std::string> names_of(const std::string& joined) {
  std::vector<std::string> names;
  std::istringstream text(joined);
  for (std::string name; std::getline(text, name, '/');) names.push_back("'" + name + "'");
  return names;
}

/// The items of a list as in config.yaml, "[flatten, linear: {features: 5}]"; empty if it isn't a list.
std::vector<std::string> items_of(const std::string& list) {
  if (!list.starts_with('[') || !list.ends_with(']') || list.size() < 3) return {};
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : std::string_view(list).substr(1, list.size() - 2)) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth == 0 && c == ',')
      items.emplace_back();
    else if (c != ' ' || !items.back().empty())
      items.back() += c;
  }
  return items;
}

/// The first items in which two lists differ: "'odd' for class 1 of 2".
std::pair<std::string, std::string> differing_item(const std::vector<std::string>& own,
                                                   const std::vector<std::string>& other, const std::string& what) {
  const auto at = static_cast<size_t>(std::ranges::mismatch(own, other).in1 - own.begin());
  const auto said = [&](const std::vector<std::string>& items) {
    return fmt::format("{} for {} {} of {}", at < items.size() ? items[at] : "none", what, at, items.size());
  };
  return {said(own), said(other)};
}

/// The differing parts of two values of this name.
std::pair<std::string, std::string> differing(const std::string& name, const std::string& own,
                                              const std::string& other) {
  if (name == option_name(kDataset, kClassNames)) return differing_item(names_of(own), names_of(other), "class");
  if (name == option_name(kModel, kLayers)) return differing_item(items_of(own), items_of(other), "layer");
  return {own, other};
}

/// What determines the samples of a batch, besides the seed. If processes each have a part of the data, the cut and the
/// split of micro-batches matter too, because the length of each part depends on them.
std::string order_of(const Experiment& experiment) {
  if (!experiment.is_partitioned()) return "over all samples";
  std::string order = fmt::format("by processes of {} devices", fmt::join(experiment.devices_of_processes, ", "));
  if (experiment.split.measured) order += ", split: auto";
  if (const auto& split = experiment.split.weights; split && !split->is_even())
    order += fmt::format(", split {}", fmt::join(split->weights(), " : "));
  if (experiment.shards > 0) order += fmt::format(", shards: {}", experiment.shards);
  if (const int devices = experiment.strategy.devices_of_part(); devices > 1)
    order += fmt::format(", replicas of {} devices", devices);
  const int64_t micro_batches = experiment.accumulate * experiment.strategy.micro_batches;
  if (micro_batches > 1) order += fmt::format(", {} micro-batches", micro_batches);
  return order;
}

/// The frozen parameters, independent of the order in which the configuration lists them.
std::string frozen_of(const Experiment& experiment) {
  const std::set<std::string> entries(experiment.frozen.begin(), experiment.frozen.end());
  return entries.empty() ? kNoneFrozen : fmt::format("{}", fmt::join(entries, ", "));
}

/// An option's value in a checkpoint, in the form in which it is read now: layers have defaults for options that were
/// added later.
std::string as_read_now(const std::string& name, const std::string& value) {
  if (name != option_name(kModel, kLayers)) return value;
  std::string read = value;
  try {
    const ConfigSession session(parse_config(fmt::format("model: {{layers: {}}}\n", value), "manifest.json"),
                                [&](ConfigReader& config) {
                                  for (const auto& [option, now] : models::read_model(config).options)
                                    if (option == kLayers) read = now;
                                });
  } catch (const Error&) {
    return value;  // it has layers that no longer exist
  }
  return read;
}

std::optional<std::string> entry_of(const TrainingIdentity& identity, const std::string& name) {
  const auto found = std::ranges::find(identity, name, &TrainingIdentity::value_type::first);
  if (found != identity.end()) return as_read_now(name, found->second);
  // Checkpoints from before this key existed belong to training runs of all parameters.
  return name == kFreeze ? std::optional<std::string>(kNoneFrozen) : std::nullopt;
}

/// The identity of the training that the weights come from; nothing for files that aren't a checkpoint's.
std::optional<TrainingIdentity> identity_of_weights(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (name != "model.safetensors" && name != "average.safetensors") return std::nullopt;
  return read_identity(file.parent_path());
}

/// Advice for going on with a training run that has another value there.
std::string advice_for(const std::string& name) {
  if (name == kVocabulary) return "give the data set the text and the vocabulary that it was trained with";
  if (name == option_name(kDataset, kClassNames)) return "give its folders the names that they had";
  if (name == option_name(kDataset, "partition"))
    return "start the same number of processes with the same numbers of devices, and set dataset.partition as it was";
  if (name == kSamples) return "set dataset.limit and validation.samples, or a synthetic dataset.samples, as they were";
  return "set the value that it was trained with";
}

}  // namespace

TrainingIdentity identity_of(const Experiment& experiment, const Dataset& data) {
  TrainingIdentity identity = {{kModel, experiment.model.name}, {kDataset, experiment.dataset.name}};
  if (const auto vocabulary = vocabulary_of(data)) identity.emplace_back(kVocabulary, *vocabulary);
  add_options(identity, kModel, experiment.model.options);
  add_options(identity, kDataset, experiment.dataset.options);
  if (const auto names = class_names_of(data)) identity.emplace_back(option_name(kDataset, kClassNames), *names);
  identity.emplace_back(option_name(kDataset, "partition"), order_of(experiment));
  identity.emplace_back("validation.samples", std::to_string(experiment.validation.samples));
  if (experiment.validation.samples > 0)
    identity.emplace_back("validation.monitor", monitor_name(experiment.validation.monitor));
  identity.insert(identity.end(), {{kSamples, std::to_string(data.samples())},
                                   {"batch_size", std::to_string(experiment.batch_size)},
                                   {"accumulate", std::to_string(experiment.accumulate)},
                                   {"seed", std::to_string(experiment.seed)},
                                   {"optimizer", experiment.optimizer.name},
                                   {kFreeze, frozen_of(experiment)}});
  return identity;
}

void require_same_training(const TrainingIdentity& own, const ResumePoint& resume) {
  for (const auto& [name, value] : own) {
    const auto other = entry_of(resume.checkpoint.identity, name);
    if (other == value || (!other && is_option(name))) continue;
    const auto [expected, got] = differing(name, value, other.value_or("none"));
    throw Error(ExitCode::bad_data, Mistake{.where = resume.folder.string(),
                                            .expected = fmt::format("expected a run with {} {}", name, expected),
                                            .got = got,
                                            .advice = advice_for(name) + ", or leave out --resume to train anew"});
  }
}

void require_same_kept(const std::vector<nn::NamedValues>& own, const std::vector<nn::NamedValues>& saved,
                       const std::string& where) {
  const auto kinds_of = [](const std::vector<nn::NamedValues>& state) {
    std::set<std::string> kinds;
    for (const nn::NamedValues& tensor : state) kinds.insert(tensor.name.substr(0, tensor.name.find('.')));
    return kinds.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(kinds, ", "));
  };
  const std::string expected = kinds_of(own), got = kinds_of(saved);
  if (expected == got) return;
  throw Error(
      ExitCode::bad_data,
      Mistake{.where = where,
              .expected = fmt::format("expected the optimizer state for this momentum, {}", expected),
              .got = got,
              .advice =
                  "set optimizer.momentum to the value that it was trained with, or leave out --resume to train anew"});
}

void require_possible_position(const ResumePoint& resume, int64_t batches_per_epoch) {
  const TrainingPosition& position = resume.checkpoint.position;
  const auto refuse = [&](const char* key, const std::string& expected, int64_t got) {
    throw Error(ExitCode::bad_data,
                Mistake{.where = fmt::format("{}: position.{}", (resume.folder / "manifest.json").string(), key),
                        .expected = expected,
                        .got = fmt::format("{}", got),
                        .advice = "the file is damaged; use another checkpoint"});
  };
  if (position.batches > batches_per_epoch)
    refuse("batches", fmt::format("expected at most the {} batches of an epoch", batches_per_epoch), position.batches);
  const int64_t of_epochs = position.step - position.batches;
  if (of_epochs % batches_per_epoch != 0 || of_epochs / batches_per_epoch != position.epochs)
    refuse("step",
           fmt::format("expected the steps of {} epochs with {} batches each, plus {}", position.epochs,
                       batches_per_epoch, position.batches),
           position.step);
}

void require_same_vocabulary(const Dataset& data, const std::filesystem::path& weights) {
  const auto own = vocabulary_of(data);
  if (!own) return;
  const auto identity = identity_of_weights(weights);
  const auto other = identity ? entry_of(*identity, kVocabulary) : std::nullopt;
  if (!other || other == own) return;
  throw Error(ExitCode::bad_data,
              Mistake{.where = weights.string(),
                      .expected = fmt::format("expected weights that have learned the vocabulary {}", *own),
                      .got = *other,
                      .advice = "give the data set the text and the vocabulary that they were trained with"});
}

void require_same_input(const Experiment& experiment, const Dataset& data, const std::filesystem::path& weights) {
  require_same_vocabulary(data, weights);
  const auto identity = identity_of_weights(weights);
  if (!identity) return;
  const auto require = [&](const std::string& name, const std::string& own) {
    const auto other = entry_of(*identity, option_name(kDataset, name));
    if (!other || other == own) return;
    const auto [expected, got] = differing(option_name(kDataset, name), own, *other);
    throw Error(ExitCode::bad_data,
                Mistake{.where = weights.string(),
                        .expected = fmt::format("expected weights that were trained with {} {}",
                                                option_name(kDataset, name), expected),
                        .got = got,
                        .advice = name == kClassNames ? "give the data set's folders the names that they had"
                                                      : "set the value that they were trained with"});
  };
  if (const auto names = class_names_of(data)) require(kClassNames, *names);
  for (const auto& [option, value] : experiment.dataset.options)
    if (option == "normalize") require(option, value);
}

void require_same_model(const models::ModelSpec& model, const std::filesystem::path& weights) {
  const auto identity = identity_of_weights(weights);
  if (!identity || entry_of(*identity, kModel) != model.name) return;
  for (const auto& [option, value] : model.options) {
    const auto other = entry_of(*identity, option_name(kModel, option));
    if (!other || other == value) continue;
    const std::string name = option_name(kModel, option);
    const auto [expected, got] = differing(name, value, *other);
    throw Error(ExitCode::bad_data,
                Mistake{.where = weights.string(),
                        .expected = fmt::format("expected weights that were trained with {} {}", name, expected),
                        .got = got,
                        .advice = "set the value that they were trained with"});
  }
}

}  // namespace dptrain::train
