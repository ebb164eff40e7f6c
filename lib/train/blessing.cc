#include "train/blessing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "config/config_document.h"
#include "config/json_words.h"

namespace dptrain::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& got) {
  throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                          .expected = "expected a file that dptrain bless has written",
                                          .got = got,
                                          .advice = "write it again with dptrain bless -o FILE"});
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

/// Reads values of the file and checks them as docs/blessing.schema.json requires.
class Reader {
 public:
  explicit Reader(std::filesystem::path file) : file_(std::move(file)) {}

  double number(const json& object, const char* key) const {
    const json& value = object.at(key);
    if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
    refuse(file_, fmt::format("{}: {}", key, value.dump()));
  }
  double positive(const json& object, const char* key) const {
    const double value = number(object, key);
    if (value >= 0) return value;
    refuse(file_, fmt::format("{}: {}", key, value));
  }
  int64_t count(const json& object, const char* key) const {
    const json& value = object.at(key);
    if (value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() < 9e18)
      return value.get<int64_t>();
    refuse(file_, fmt::format("{}: {}", key, value.dump()));
  }
  /// A text of characters that a terminal can show.
  std::string text(const json& object, const char* key) const {
    const std::string value = object.at(key);
    if (std::ranges::none_of(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return value;
    refuse(file_, fmt::format("{}: {}", key, object.at(key).dump(-1, ' ', true)));
  }
  std::string hash(const json& object, const char* key) const {
    const std::string value = object.at(key);
    constexpr size_t kDigits = 64;
    if (value.size() == kDigits && value.find_first_not_of("0123456789abcdef") == std::string::npos) return value;
    refuse(file_, fmt::format("{}: {}", key, object.at(key).dump(-1, ' ', true)));
  }
  std::string config(const json& lines) const {
    std::string config;
    for (const json& line : lines) config += line.get<std::string>() + "\n";
    try {
      parse_config(config, file_.string());
    } catch (const Error& error) {
      refuse(file_, fmt::format("no configuration: {}", error.what()));
    }
    return config;
  }
  [[noreturn]] void damaged(const std::string& got) const { refuse(file_, got); }

 private:
  std::filesystem::path file_;
};

Blessing blessing_of(const json& document, const Reader& reader) {
  if (reader.count(document, "schema") != 1) reader.damaged("a schema other than 1");
  const json &by = document.at("by"), &sent = document.at("sent");
  Blessing blessing{.run = reader.text(document, "run"),
                    .config = reader.config(document.at("config")),
                    .version = reader.text(by, "dptrain"),
                    .commit = reader.text(by, "commit"),
                    .instructions = reader.text(by, "instructions"),
                    .first = {},
                    .loss_bounds = {}};
  for (const json& step : document.at("steps")) {
    if (reader.count(step, "step") != std::ssize(blessing.first.steps) + 1) reader.damaged("steps out of order");
    blessing.first.steps.push_back({.learning_rate = reader.positive(step, "learning_rate"),
                                    .samples = reader.count(step, "samples"),
                                    .loss = reader.number(step, "loss")});
    blessing.loss_bounds.push_back(reader.positive(step, "loss_bound"));
  }
  blessing.first.sent = {.bytes = reader.count(sent, "bytes"), .collectives = reader.count(sent, "collectives")};
  for (const json& device : document.at("devices"))
    blessing.first.devices.push_back(
        {.name = reader.text(device, "device"), .peak_bytes = reader.count(device, "peak_bytes")});
  blessing.first.weights_hash = reader.hash(document, "weights_hash");
  if (blessing.first.steps.empty() || blessing.first.devices.empty()) reader.damaged("no steps or no devices");
  return blessing;
}

}  // namespace

/// Each step, device and configuration key has its own line, so that versions of the file can be compared line by line.
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
      "{}{},\n \"by\": {},\n \"steps\": {},\n \"sent\": {},\n \"devices\": {},\n "
      "\"weights_hash\": \"{}\",\n \"config\": {}\n}}\n",
      kBeginning, ordered_json(run).dump(), by.dump(), list(steps), sent.dump(), list(devices), first.weights_hash,
      list(keys));
}

Blessing read_blessing(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  try {
    return blessing_of(json::parse(text), Reader(file));
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
