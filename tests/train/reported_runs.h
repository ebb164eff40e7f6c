#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/idx_files.h"

namespace dptrain::train {

/// What a test says of an epoch; metrics_line fills in the rest.
struct WrittenEpoch {
  double train_loss = 0.5;
  double test_loss = 0.25;
  double accuracy = 0.9;
  double seconds = 2;
  int devices = 2;
};

/// The epoch's line of metrics.jsonl.
inline std::string metrics_line(int number, const WrittenEpoch& epoch) {
  nlohmann::json devices = nlohmann::json::array();
  for (int rank = 0; rank < epoch.devices; ++rank)
    devices.push_back({{"device", "cpu:" + std::to_string(rank)},
                       {"rank", rank},
                       {"host", "a"},
                       {"process", 0},
                       {"samples", 500},
                       {"busy", 0.5},
                       {"peak_bytes", 3'000'000 + 1'000'000 * rank},
                       {"memory",
                        {{"weights", 1'000'000},
                         {"gradients", 1'000'000},
                         {"optimizer", 0},
                         {"activations", 1'000'000 * (rank + 1)},
                         {"workspace", 0},
                         {"communication", 0}}}});
  const double s = epoch.seconds;
  return nlohmann::json{{"schema", 1},
                        {"run", "run"},
                        {"epoch", number},
                        {"step", 10 * number},
                        {"strategy", "ddp"},
                        {"learning_rate", 0.1},
                        {"train", {{"loss", epoch.train_loss}, {"accuracy", 0.8}, {"samples", 1000}, {"seconds", s}}},
                        {"test", {{"loss", epoch.test_loss}, {"accuracy", epoch.accuracy}}},
                        {"time",
                         {{"compute_s", s / 2},
                          {"exposed_comm_s", s / 4},
                          {"data_wait_s", s / 8},
                          {"optimizer_s", s / 8},
                          {"other_s", 0}}},
                        {"comm", {{"bytes", 2'500'000}}},
                        {"devices", devices},
                        {"weights_hash", std::string(64, 'a')}}
             .dump() +
         "\n";
}

inline nlohmann::json summary_of(int exit = 0) {
  return {{"exit", exit},
          {"steps", 20},
          {"weights_hash", std::string(64, 'f')},
          {"environment",
           {{"dptrain", "0.1.0"},
            {"commit", "abc"},
            {"libraries", {"oneDNN 2.6.3"}},
            {"cpu", "a <fast> CPU"},
            {"instructions", "avx2"},
            {"cores", 2},
            {"threads", {1, 1}}}}};
}

inline nlohmann::json fault_of_cause(const std::string& cause) {
  return {{"exit", 75}, {"root", {{"cause", cause}}}, {"resume", "dptrain --config a.yaml --resume"}};
}

/// A folder of run directories.
class WrittenRuns {
 public:
  /// `metrics` is the text of metrics.jsonl.
  void write(const std::string& name, const std::string& config, const std::string& metrics,
             const nlohmann::ordered_json& summary = nullptr) const {
    std::filesystem::create_directories(path() / name);
    scratch_.write(name + "/config.yaml", config);
    if (!metrics.empty()) scratch_.write(name + "/metrics.jsonl", metrics);
    if (!summary.is_null()) scratch_.write(name + "/summary.json", summary.dump());
  }
  void write_file(const std::string& name, const std::string& text) const { scratch_.write(name, text); }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  testing::ScratchFolder scratch_;
};

}  // namespace dptrain::train
