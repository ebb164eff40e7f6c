#include "train/checkpoint_manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kSchema = 1;

ordered_json costs_json(const parallel::RankCosts& costs) {
  return {{"seconds", costs.times.seconds},
          {"samples", costs.samples},
          {"skipped_steps", costs.skipped_steps},
          {"peak_bytes", costs.peak_bytes},
          {"memory_at_peak", costs.memory_at_peak.by_purpose},
          {"comm_bytes", costs.communication.bytes},
          {"collectives", costs.communication.collectives}};
}

parallel::RankCosts costs_of(const json& costs) {
  parallel::RankCosts result;
  costs.at("seconds").get_to(result.times.seconds);
  costs.at("samples").get_to(result.samples);
  costs.at("skipped_steps").get_to(result.skipped_steps);
  costs.at("peak_bytes").get_to(result.peak_bytes);
  costs.at("memory_at_peak").get_to(result.memory_at_peak.by_purpose);
  costs.at("comm_bytes").get_to(result.communication.bytes);
  costs.at("collectives").get_to(result.communication.collectives);
  return result;
}

ordered_json score_json(const parallel::Score& score) {
  ordered_json outputs = ordered_json::array();
  for (const auto& output : score.outputs)
    outputs.push_back({{"loss_sum", output.loss_sum}, {"correct", output.correct}, {"counted", output.counted}});
  return {{"outputs", outputs}, {"samples", score.samples}};
}

parallel::Score score_of(const json& score) {
  parallel::Score result;
  for (const json& output : score.at("outputs"))
    result.outputs.push_back(
        {.loss_sum = output.at("loss_sum"), .correct = output.at("correct"), .counted = output.at("counted")});
  score.at("samples").get_to(result.samples);
  return result;
}

ordered_json position_json(const TrainingPosition& position) {
  ordered_json costs = ordered_json::array();
  for (const auto& rank : position.costs) costs.push_back(costs_json(rank));
  return {{"step", position.step},
          {"epochs", position.epochs},
          {"batches", position.batches},
          {"score", score_json(position.score)},
          {"seconds", position.seconds},
          {"data_wait_s", position.data_wait_s},
          {"learning_rate", position.learning_rate},
          {"reported", position.reported},
          {"costs", costs}};
}

TrainingPosition position_of(const json& position) {
  TrainingPosition result;
  position.at("step").get_to(result.step);
  position.at("epochs").get_to(result.epochs);
  position.at("batches").get_to(result.batches);
  result.score = score_of(position.at("score"));
  position.at("seconds").get_to(result.seconds);
  position.at("data_wait_s").get_to(result.data_wait_s);
  position.at("learning_rate").get_to(result.learning_rate);
  position.at("reported").get_to(result.reported);
  for (const json& rank : position.at("costs")) result.costs.push_back(costs_of(rank));
  return result;
}

/// "parse error at line 1, ..." of the library's "[json.exception.parse_error.101] parse error at line 1, ...".
std::string without_number(const std::string& message) { return message.substr(message.find("] ") + 2); }

}  // namespace

std::string manifest_json(const Checkpoint& checkpoint, const std::map<std::string, WrittenFile>& files) {
  ordered_json identity, file_list, loss_scale;
  for (const auto& [name, value] : checkpoint.identity) identity[name] = value;
  for (const auto& [name, file] : files) file_list[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  if (const auto& scale = checkpoint.state.loss_scale)
    loss_scale = {{"scale", scale->scale}, {"good", scale->good}, {"skipped", scale->skipped}};
  const ordered_json document = {{"schema", kSchema},
                                 {"position", position_json(checkpoint.position)},
                                 {"identity", identity},
                                 {"config_hash", checkpoint.config_hash},
                                 {"devices", checkpoint.devices},
                                 {"loss_scale", loss_scale},
                                 {"files", file_list}};
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
    checkpoint.position = position_of(document.at("position"));
    for (const auto& [name, value] : ordered.at("identity").items())
      checkpoint.identity.emplace_back(name, value.get<std::string>());
    document.at("config_hash").get_to(checkpoint.config_hash);
    document.at("devices").get_to(checkpoint.devices);
    if (const json& scale = document.at("loss_scale"); !scale.is_null())
      checkpoint.state.loss_scale = {
          .scale = scale.at("scale"), .good = scale.at("good"), .skipped = scale.at("skipped")};
    for (const auto& [name, file] : document.at("files").items())
      manifest.files[name] = {.bytes = file.at("bytes"), .sha256 = file.at("sha256")};
  } catch (const json::exception& error) {
    throw Error(ExitCode::bad_data, Mistake{.where = where,
                                            .expected = "expected the manifest of a checkpoint",
                                            .got = without_number(error.what()),
                                            .advice = "the file is damaged; use another checkpoint"});
  }
  return manifest;
}

}  // namespace dptrain::train
