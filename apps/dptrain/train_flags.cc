#include "train_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/sha256.h"
#include "output.h"

namespace dptrain::app {

namespace fs = std::filesystem;

bool TrainFlags::goes_on_in(const fs::path& out) const {
  return resume && (checkpoint.empty() || train::lies_in_run(checkpoint, out));
}

train::EarlierRun TrainFlags::earlier_run(const fs::path& out) const {
  if (goes_on_in(out) && overwrite)
    throw Error(ExitCode::usage, fmt::format("--overwrite would remove the run that --resume goes on with in {}; give "
                                             "one of them, or --resume with a checkpoint of another run",
                                             out.string()));
  if (goes_on_in(out)) return train::EarlierRun::resume;
  return overwrite ? train::EarlierRun::overwrite : train::EarlierRun::refuse;
}

train::EarlierRun TrainFlags::before_training(const fs::path& out) const {
  return goes_on_in(out) ? train::EarlierRun::resume : train::EarlierRun::refuse;
}

std::optional<train::ResumePoint> TrainFlags::resume_point(const fs::path& out) const {
  if (!resume) return std::nullopt;
  fs::path named = checkpoint;
  if (!named.has_filename()) named = named.parent_path();  // the path ends with a slash
  std::error_code unreadable;
  if (!named.empty() && !fs::is_directory(named / "checkpoints", unreadable))
    return train::ResumePoint{.checkpoint = train::read_checkpoint(named), .folder = named};
  const auto folder = (named.empty() ? out : named) / "checkpoints";
  const auto found = train::newest_checkpoint(folder, tell_of_damage);
  if (!found && !named.empty()) train::read_checkpoint(named);
  return found;
}

train::TracedSteps traced_steps(const std::string& text) {
  constexpr int64_t kMost = 1'000'000'000;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  int64_t first = 0, last = 0;
  auto read = std::from_chars(begin, end, first);
  const bool is_range = read.ec == std::errc() && read.ptr != end && *read.ptr == '-';
  if (is_range) read = std::from_chars(read.ptr + 1, end, last);
  const bool is_whole = read.ec == std::errc() && read.ptr == end;
  if (is_whole && is_range && 1 <= first && first <= last && last <= kMost)
    return {.numbered = parallel::ShownSteps{.first = first, .last = last}};
  if (is_whole && !is_range && 1 <= first && first <= kMost) return {.count = first};
  throw Error(ExitCode::usage,
              Mistake{.where = "--trace",
                      .expected = "expected a number of steps, or the first and the last step, up to 1000000000",
                      .got = text,
                      .advice = "write for instance --trace 5, or --trace 100-104"});
}

fs::path run_directory(std::string out, const std::string& config) {
  constexpr std::string_view kHash = "{hash}";
  const std::string digits = sha256_of(config).substr(0, 16);
  for (size_t at = 0; (at = out.find(kHash, at)) != std::string::npos; at += digits.size())
    out.replace(at, kHash.size(), digits);
  const size_t open = out.find('{'), close = out.find('}', open);
  if (open != std::string::npos && close != std::string::npos)
    throw Error(ExitCode::usage, Mistake{.where = "--out",
                                         .expected = fmt::format("expected no word in braces except {}", kHash),
                                         .got = out.substr(open, close + 1 - open),
                                         .advice = fmt::format("write for instance runs/rates/{}", kHash)});
  return out;
}

}  // namespace dptrain::app
