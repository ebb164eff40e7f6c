#include "train/blessing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "config/json_words.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& got) {
  throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                          .expected = "expected what dptrain bless writes",
                                          .got = got,
                                          .advice = "write it anew with dptrain bless -o FILE"});
}

double least_share(Precision precision) {
  switch (precision) {
    case Precision::fp32: return 80 * std::ldexp(1.0, -24);
    case Precision::tf32:
    case Precision::fp16: return 2 * std::ldexp(1.0, -11);
    case Precision::bf16: return 2 * std::ldexp(1.0, -8);
  }
  return 0;
}

Blessing blessing_of(const json& document) {
  Blessing blessing{.run = document.at("run"),
                    .config = {},
                    .version = document.at("by").at("dptrain"),
                    .commit = document.at("by").at("commit"),
                    .instructions = document.at("by").at("instructions"),
                    .first = {},
                    .loss_bounds = {}};
  for (const json& line : document.at("config")) blessing.config += line.get<std::string>() + "\n";
  for (const json& step : document.at("steps")) {
    blessing.first.steps.push_back(
        {.learning_rate = step.at("learning_rate"), .samples = step.at("samples"), .loss = step.at("loss")});
    blessing.loss_bounds.push_back(step.at("loss_bound"));
  }
  blessing.first.sent = {.bytes = document.at("sent").at("bytes"),
                         .collectives = document.at("sent").at("collectives")};
  for (const json& device : document.at("devices"))
    blessing.first.devices.push_back({.name = device.at("device"), .peak_bytes = device.at("peak_bytes")});
  blessing.first.weights_hash = document.at("weights_hash");
  return blessing;
}

}  // namespace

/// A line for each step, device and key of the configuration, so that versions of the file are compared line by line.
std::string Blessing::json() const {
  std::vector<std::string> steps, devices, keys;
  for (size_t i = 0; i < first.steps.size(); ++i) {
    const FirstSteps::Step& step = first.steps[i];
    steps.push_back(ordered_json{{"step", i + 1},
                                 {"learning_rate", step.learning_rate},
                                 {"samples", step.samples},
                                 {"loss", step.loss},
                                 {"loss_bound", loss_bounds.at(i)}}
                        .dump());
  }
  for (const FirstSteps::Device& device : first.devices)
    devices.push_back(ordered_json{{"device", device.name}, {"peak_bytes", device.peak_bytes}}.dump());
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) keys.push_back(ordered_json(line).dump());
  const ordered_json by = {{"dptrain", version}, {"commit", commit}, {"instructions", instructions}};
  const ordered_json sent = {{"bytes", first.sent.bytes}, {"collectives", first.sent.collectives}};
  const auto list = [](const std::vector<std::string>& items) {
    return fmt::format("[\n  {}\n ]", fmt::join(items, ",\n  "));
  };
  return fmt::format(
      "{{\n \"schema\": 1,\n \"run\": {},\n \"by\": {},\n \"steps\": {},\n \"sent\": {},\n \"devices\": {},\n "
      "\"weights_hash\": \"{}\",\n \"config\": {}\n}}\n",
      ordered_json(run).dump(), by.dump(), list(steps), sent.dump(), list(devices), first.weights_hash, list(keys));
}

Blessing read_blessing(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  try {
    Blessing blessing = blessing_of(json::parse(text));
    if (blessing.first.steps.empty() || blessing.first.devices.empty()) refuse(file, "no steps or no devices");
    return blessing;
  } catch (const json::exception& damage) {
    refuse(file, json_words(damage));
  }
}

std::vector<double> loss_bounds(const FirstSteps& first, const std::vector<FirstSteps>& nudged, Precision precision) {
  std::vector<double> bounds;
  double noise = 0;
  for (size_t i = 0; i < first.steps.size(); ++i) {
    const double loss = first.steps[i].loss;
    for (const FirstSteps& other : nudged) noise = std::max(noise, std::abs(other.steps.at(i).loss - loss));
    bounds.push_back(std::max(4 * noise, least_share(precision) * std::abs(loss)));
  }
  return bounds;
}

}  // namespace dptrain::train
