#include "train/earlier_comparison.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace dptrain::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kReports[] = {"compare.json", "compare.md"};

/// The run's present place in `out`. compare.json may have been written in another working directory, or before the
/// folder was moved. A run's name can't lead out of `out`.
fs::path directory_in(const fs::path& out, const std::string& run, const fs::path& recorded) {
  const bool is_name = fs::path(run).filename() == run && run != "." && run != ".." && !run.empty();
  if (!is_name) return {};
  if (recorded.filename() == run) return out / run;
  const bool is_repeated =
      recorded.parent_path().filename() == run && recorded.filename().string().starts_with("seed-");
  return is_repeated ? out / run / recorded.filename() : fs::path();
}

}  // namespace

std::vector<fs::path> runs_of_earlier_comparison(const fs::path& out) {
  std::error_code error;
  const fs::path file = out / "compare.json";
  if (!fs::is_regular_file(file, error)) return {};
  std::vector<fs::path> found;
  try {
    const json document = json::parse(read_file(file));
    for (const json& run : document.at("runs"))
      for (const json& training : run.at("trainings")) {
        const fs::path directory =
            directory_in(out, run.at("run").get<std::string>(), training.at("directory").get<std::string>());
        if (!directory.empty()) found.push_back(directory);
      }
  } catch (const json::exception&) {
    return {};
  }
  return found;
}

void refuse_earlier_comparison(const fs::path& out) {
  for (const char* file : kReports) {
    std::error_code error;
    if (fs::exists(out / file, error))
      throw Error(ExitCode::io,
                  Mistake{.where = out.string(),
                          .expected = fmt::format("the directory already has {}", file),
                          .got = "",
                          .advice = "--overwrite replaces it and its runs, --out DIR chooses another directory"});
  }
}

void remove_earlier_comparison(const fs::path& out) {
  for (const char* file : kReports) {
    std::error_code error;
    fs::remove(out / file, error);
    if (error)
      throw Error(ExitCode::io, fmt::format("{}: can't be removed: {}", (out / file).string(), error.message()));
  }
}

}  // namespace dptrain::train
