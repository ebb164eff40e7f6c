#include "train/run_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "config/json_words.h"

namespace dptrain::train {

void refuse_run_file(const std::filesystem::path& file, const std::string& got) {
  throw Error(ExitCode::bad_data, Mistake{.where = file.string(),
                                          .expected = "expected a file that a run of dptrain has written",
                                          .got = got,
                                          .advice = "leave this directory out"});
}

void read_run_lines(const std::filesystem::path& file, const std::function<void(const std::string& line)>& read) {
  std::istringstream lines(read_file(file));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_whole = !lines.eof();
    if (!is_whole) return;
    ++number;
    try {
      read(line);
    } catch (const nlohmann::json::parse_error&) {
      refuse_run_file(file, fmt::format("no JSON in line {}", number));
    } catch (const nlohmann::json::exception& damage) {
      refuse_run_file(file, fmt::format("{} in line {}", json_words(damage), number));
    }
  }
}

void read_run_document(const std::filesystem::path& file, const std::function<void(const std::string& text)>& read) {
  try {
    read(read_file(file));
  } catch (const nlohmann::json::exception& damage) {
    refuse_run_file(file, json_words(damage));
  }
}

}  // namespace dptrain::train
