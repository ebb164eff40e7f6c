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

/// The events of a file's bytes, up to a record that isn't whole, as TensorBoard reads them: a checksum that is wrong,
/// or what no event has, fails the test.
std::vector<ReadEvent> events_in(const std::string& bytes);

/// The files of a folder in the order in which TensorBoard reads them.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

/// What TensorBoard shows of a folder: by its tag each curve's steps and values; where a session starts that isn't the
/// first, what was there of that step and later ones is forgotten.
using Curves = std::map<std::string, std::vector<std::pair<int64_t, float>>>;
Curves curves_of(const std::filesystem::path& folder);

}  // namespace dptrain::testing
