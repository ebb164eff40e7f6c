#include "train/checkpoint_manifest.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "config/json_words.h"
#include "train/strategy_choice_json.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr int64_t kMostSplitWeight = 1'000'000;

/// A value of the manifest and its place: "manifest.json: position.step". A missing value throws json::exception.
class Value {
 public:
  Value(const json& value, std::string where) : value_(value), where_(std::move(where)) {}

  Value at(const char* key) const { return {value_.at(key), fmt::format("{}.{}", where_, key)}; }
  Value at(size_t index) const { return {value_.at(index), fmt::format("{}[{}]", where_, index)}; }
  size_t size() const { return value_.size(); }
  bool has(const char* key) const { return value_.contains(key); }
  bool is_null() const { return value_.is_null(); }
  template <class T>
  T as() const {
    return value_.get<T>();
  }
  /// An integer of at least 0. Throws 65.
  int64_t count(int64_t most = std::numeric_limits<int64_t>::max()) const {
    if (!value_.is_number_unsigned() || value_.get<uint64_t>() > static_cast<uint64_t>(most))
      refuse(fmt::format("expected a whole number from 0 to {}", most));
    return value_.get<int64_t>();
  }
  /// A number that isn't negative. Throws 65.
  double amount(double most = std::numeric_limits<double>::max()) const {
    const double number = value_.get<double>();
    if (!(number >= 0 && number <= most)) refuse(fmt::format("expected a number from 0 to {}", most));
    return number;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    throw Error(ExitCode::bad_data, Mistake{.where = where_,
                                            .expected = expected,
                                            .got = value_.dump(),
                                            .advice = "the file is damaged; use another checkpoint"});
  }

  const json& value_;
  std::string where_;
};

ordered_json costs_json(const parallel::RankCosts& costs) {
  return {{"seconds", costs.times.seconds},          {"samples", costs.samples},
          {"graph_steps", costs.graph_steps},        {"skipped_steps", costs.skipped_steps},
          {"peak_bytes", costs.peak_bytes},          {"memory_at_peak", costs.memory_at_peak.by_purpose},
          {"comm_bytes", costs.communication.bytes}, {"collectives", costs.communication.collectives}};
}

parallel::RankCosts costs_of(const Value& costs) {
  parallel::RankCosts result;
  for (size_t i = 0; i < result.times.seconds.size(); ++i) result.times.seconds[i] = costs.at("seconds").at(i).amount();
  result.samples = costs.at("samples").count();
  // Older manifests don't have it.
  if (costs.has("graph_steps")) result.graph_steps = costs.at("graph_steps").count();
  result.skipped_steps = costs.at("skipped_steps").count();
  result.peak_bytes = costs.at("peak_bytes").count();
  auto& by_purpose = result.memory_at_peak.by_purpose;
  for (size_t i = 0; i < by_purpose.size(); ++i) by_purpose[i] = costs.at("memory_at_peak").at(i).count();
  result.communication.bytes = costs.at("comm_bytes").count();
  result.communication.collectives = costs.at("collectives").count();
  return result;
}

ordered_json score_json(const parallel::Score& score) {
  ordered_json outputs = ordered_json::array();
  for (const auto& output : score.outputs)
    outputs.push_back({{"loss_sum", output.loss_sum}, {"correct", output.correct}, {"counted", output.counted}});
  ordered_json sums = {{"outputs", outputs}, {"samples", score.samples}};
  const parallel::GradientNoise& noise = score.noise;
  if (noise.samples > 0)
    sums["gradient_noise"] = {
        {"variance_sum", noise.variance_sum}, {"squared_norm_sum", noise.squared_norm_sum}, {"samples", noise.samples}};
  return sums;
}

parallel::Score score_of(const Value& score) {
  parallel::Score result;
  const Value outputs = score.at("outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value output = outputs.at(i);
    const int64_t counted = output.at("counted").count();
    result.outputs.push_back({.loss_sum = output.at("loss_sum").amount(),
                              .correct = output.at("correct").count(counted),
                              .counted = counted});
  }
  result.samples = score.at("samples").count();
  if (!score.has("gradient_noise")) return result;
  const Value noise = score.at("gradient_noise");
  result.noise = {.variance_sum = noise.at("variance_sum").as<double>(),
                  .squared_norm_sum = noise.at("squared_norm_sum").as<double>(),
                  .samples = noise.at("samples").count()};
  return result;
}

ordered_json plateau_json(const optim::PlateauState& plateau) {
  return {{"scale", plateau.scale},
          {"best", plateau.best ? ordered_json(*plateau.best) : ordered_json()},
          {"since", plateau.since}};
}

optim::PlateauState plateau_of(const Value& plateau) {
  optim::PlateauState state{.scale = plateau.at("scale").amount(1), .since = plateau.at("since").count()};
  if (!plateau.at("best").is_null()) state.best = plateau.at("best").amount();
  return state;
}

ordered_json position_json(const TrainingPosition& position) {
  ordered_json costs = ordered_json::array();
  for (const auto& rank : position.costs) costs.push_back(costs_json(rank));
  return {{"step", position.step},
          {"epochs", position.epochs},
          {"batches", position.batches},
          {"plateau", plateau_json(position.plateau)},
          {"score", score_json(position.score)},
          {"seconds", position.seconds},
          {"data_wait_s", position.data_wait_s},
          {"learning_rate", position.learning_rate},
          {"reported", position.reported},
          {"costs", costs}};
}

TrainingPosition position_of(const Value& position) {
  TrainingPosition result{.step = position.at("step").count(),
                          .epochs = position.at("epochs").count(),
                          .batches = position.at("batches").count(),
                          .plateau = {},
                          .score = score_of(position.at("score")),
                          .seconds = position.at("seconds").amount(),
                          .data_wait_s = position.at("data_wait_s").amount(),
                          .learning_rate = position.at("learning_rate").amount(),
                          .costs = {},
                          .reported = position.at("reported").as<bool>()};
  if (position.has("plateau")) result.plateau = plateau_of(position.at("plateau"));  // older manifests don't have it
  const Value costs = position.at("costs");
  for (size_t rank = 0; rank < costs.size(); ++rank) result.costs.push_back(costs_of(costs.at(rank)));
  return result;
}

std::vector<int64_t> split_of(const Value& split) {
  std::vector<int64_t> weights;
  for (size_t rank = 0; rank < split.size(); ++rank) weights.push_back(split.at(rank).count(kMostSplitWeight));
  return weights;
}

optim::LossScaleNumbers loss_scale_of(const Value& scale) {
  return {.scale = static_cast<float>(scale.at("scale").amount(std::numeric_limits<float>::max())),
          .good = static_cast<int32_t>(scale.at("good").count(std::numeric_limits<int32_t>::max())),
          .skipped = scale.at("skipped").count()};
}

/// The key of the digest over everything else in the manifest, as written.
constexpr const char* kOwnDigest = "sha256";

std::string digest_of(ordered_json document) {
  document.erase(kOwnDigest);
  return sha256_of(document.dump(2));
}

void require_own_digest(const ordered_json& document, const std::string& where) {
  const std::string digest = digest_of(document);
  if (document.at(kOwnDigest) == digest) return;
  throw Error(ExitCode::bad_data, Mistake{.where = where,
                                          .expected = fmt::format("expected the SHA-256 of its content, {}", digest),
                                          .got = document.at(kOwnDigest).dump(),
                                          .advice = "the file is damaged; use another checkpoint"});
}

}  // namespace

std::string manifest_json(const Checkpoint& checkpoint, const std::map<std::string, WrittenFile>& files) {
  ordered_json identity, file_list, loss_scale, choice;
  for (const auto& [name, value] : checkpoint.identity) identity[name] = value;
  for (const auto& [name, file] : files) file_list[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  if (const auto& scale = checkpoint.state.loss_scale)
    loss_scale = {{"scale", scale->scale}, {"good", scale->good}, {"skipped", scale->skipped}};
  if (checkpoint.choice) choice = ordered_json::parse(choice_json(*checkpoint.choice));
  ordered_json document = {{"schema", kSchema},
                           {"position", position_json(checkpoint.position)},
                           {"identity", identity},
                           {"config_hash", checkpoint.config_hash},
                           {"devices", checkpoint.devices},
                           {"split", checkpoint.split},
                           {"strategy_trials", choice},
                           {"loss_scale", loss_scale},
                           {"files", file_list}};
  document[kOwnDigest] = digest_of(document);
  return document.dump(2) + "\n";
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& where) {
  CheckpointManifest manifest;
  Checkpoint& checkpoint = manifest.checkpoint;
  try {
    const ordered_json ordered = ordered_json::parse(text);
    const json document = json::parse(text);
    if (document.at("schema") != kSchema)
      throw Error(ExitCode::bad_data, Mistake{.where = where,
                                              .expected = fmt::format("expected schema {}", kSchema),
                                              .got = document.at("schema").dump(),
                                              .advice = "use the version of dptrain that wrote it"});
    checkpoint.position = position_of({document.at("position"), where + ": position"});
    for (const auto& [name, value] : ordered.at("identity").items())
      checkpoint.identity.emplace_back(name, value.get<std::string>());
    document.at("config_hash").get_to(checkpoint.config_hash);
    document.at("devices").get_to(checkpoint.devices);
    if (document.contains("split"))  // older manifests don't have it
      checkpoint.split = split_of({document.at("split"), where + ": split"});
    if (ordered.contains("strategy_trials") && !ordered.at("strategy_trials").is_null())
      checkpoint.choice = parse_choice(ordered.at("strategy_trials").dump(), where + ": strategy_trials");
    if (const json& scale = document.at("loss_scale"); !scale.is_null())
      checkpoint.state.loss_scale = loss_scale_of({scale, where + ": loss_scale"});
    for (const auto& [name, file] : document.at("files").items()) {
      const Value listed(file, fmt::format("{}: files.{}", where, name));
      manifest.files[name] = {.bytes = static_cast<uint64_t>(listed.at("bytes").count()),
                              .sha256 = listed.at("sha256").as<std::string>()};
    }
    if (ordered.contains(kOwnDigest)) require_own_digest(ordered, where);  // older manifests don't have it
  } catch (const json::exception& error) {
    throw Error(ExitCode::bad_data, Mistake{.where = where,
                                            .expected = "expected the manifest of a checkpoint",
                                            .got = json_words(error),
                                            .advice = "the file is damaged; use another checkpoint"});
  }
  return manifest;
}

}  // namespace dptrain::train
