#include "plan/printed_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "config/json_words.h"

namespace dptrain::plan {

using nlohmann::json;

PrintedFile::PrintedFile(std::filesystem::path file, std::string command)
    : file_(std::move(file)), command_(std::move(command)) {}

void PrintedFile::read(const std::function<void(const json& document)>& use) const {
  std::error_code none;
  std::ifstream stream(file_);
  if (!stream || std::filesystem::is_directory(file_, none))
    throw Error(ExitCode::missing_file,
                Mistake{.where = file_.string(),
                        .expected = what(),
                        .got = stream ? "a folder" : "no such file",
                        .advice = fmt::format("write it with dptrain {} --json > FILE", command_)});
  try {
    use(json::parse(stream));
  } catch (const json::exception& damage) {
    damaged(json_words(damage));
  }
}

double PrintedFile::number(const json& object, const char* key, double least, double most) const {
  const auto value = object.at(key).get<double>();
  if (value >= least && value <= most) return value;
  damaged(fmt::format("{}: {}", key, object.at(key).dump()));
}

int64_t PrintedFile::integer(const json& object, const char* key, int64_t least, int64_t most) const {
  const json& value = object.at(key);
  // An unsigned number may be too large for the integer type that it is compared in.
  if (value.is_number_integer() && value.get<double>() >= static_cast<double>(least) &&
      value.get<double>() <= static_cast<double>(most))
    return value.get<int64_t>();
  damaged(fmt::format("{}: {}", key, value.dump()));
}

void PrintedFile::damaged(const std::string& got) const {
  throw Error(ExitCode::bad_data,
              Mistake{.where = file_.string(), .expected = what(), .got = got, .advice = "write the file again"});
}

void PrintedFile::refuse(const std::string& expected, const std::string& got, const std::string& advice) const {
  throw Error(ExitCode::config, Mistake{.where = file_.string(), .expected = expected, .got = got, .advice = advice});
}

}  // namespace dptrain::plan
