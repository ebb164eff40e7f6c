#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace dptrain::testing {

/// An event of a file that TensorBoard reads.
struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool starts_session = false;
  std::vector<std::pair<std::string, float>> scalars;
  std::vector<std::pair<std::string, std::string>> texts;
};

/// Reads the events of a file's bytes as TensorBoard does, up to a record that isn't complete. A wrong checksum or an
/// unknown field fails the test.
std::vector<ReadEvent> events_in(const std::string& bytes);

/// The files of a folder in the order in which TensorBoard reads them.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

/// The curves that TensorBoard shows of a folder: for each tag, its steps and values. When a later session starts at a
/// step, earlier values of that step and of later steps are dropped.
using Curves = std::map<std::string, std::vector<std::pair<int64_t, float>>>;
Curves curves_of(const std::filesystem::path& folder);

}  // namespace dptrain::testing
