#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_document.h"
#include "config/config_reader.h"

namespace dptrain::testing {

/// A small experiment with a key of every kind, read in the way that the program's parts read their keys.
struct SampleConfig {
  std::string name;
  std::string model;
  int64_t alpha = 0;
  std::string strategy;
  double bucket_mb = 0;
  bool overlap = false;
  std::optional<int64_t> rank;
  double learning_rate = 0;
  int64_t epochs = 0;
  std::optional<double> clip_norm;
  std::optional<std::string> note;
  std::optional<std::filesystem::path> dir;
  std::string precision;
  std::vector<int64_t> threads;
  std::vector<double> split;
  std::vector<std::string> devices;
  bool checkpoints = false;
  int64_t keep = 0;
  std::vector<std::string> layers;
  std::vector<std::pair<std::string, std::string>> hosts;

  bool operator==(const SampleConfig&) const = default;
};

inline constexpr double kAuto = -1;

void read_sample(ConfigReader& reader, SampleConfig& config);

/// Reads a configuration.
SampleConfig sample_of(const ConfigNode& root);

/// The error that `act` throws; fails the test if it throws none.
template <typename Act>
Error error_of(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an Error";
  return Error(ExitCode::ok, "no error");
}

/// The lines of the message (exit code 78) that reading `text` as configs/a.yaml throws.
std::vector<std::string> mistakes_in(const std::string& text, const std::vector<std::string>& overrides = {});

inline constexpr const char* kSmallest = "model: lenet\nlearning_rate: 0.2\n";

}  // namespace dptrain::testing
