#include "train/fault_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dptrain::train {
namespace {

const char* kind_of(ExitCode code) {
  switch (code) {
    case ExitCode::bad_data: return "bad_data";
    case ExitCode::missing_file: return "missing_file";
    case ExitCode::job_not_formed: return "job_not_formed";
    case ExitCode::device: return "device";
    case ExitCode::io: return "io";
    case ExitCode::peer_lost: return "peer_lost";
    case ExitCode::ranks_disagree: return "ranks_disagree";
    case ExitCode::config: return "config";
    case ExitCode::diverged: return "diverged";
    default: return "bug";
  }
}

constexpr std::string_view kRecordEnd = ".json", kStacksEnd = ".stacks.txt";

/// The beginning of the file names of a process's fault record and stacks.
std::string stem(std::optional<int> rank, int process) {
  if (!rank) return fmt::format("fault-process-{}", process);
  return *rank == 0 ? "fault" : fmt::format("fault-{}", *rank);
}

}  // namespace

std::string fault_json(const FaultRecord& record) {
  using json = nlohmann::ordered_json;
  const FaultRecord::Root& root = record.root;
  json text = {{"v", 1},
               {"run", record.run},
               {"rank", record.rank ? json(*record.rank) : json()},
               {"exit", static_cast<int>(record.exit)},
               {"root",
                {{"rank", root.rank ? json(*root.rank) : json()},
                 {"host", root.host},
                 {"pid", root.pid},
                 {"step", root.step ? json(*root.step) : json()},
                 {"op", root.operation.empty() ? json() : json(root.operation)},
                 {"cause", root.cause},
                 {"kind", kind_of(record.exit)}}},
               {"detected_s", std::round(1000 * record.detected_s) / 1000},
               {"last_checkpoint", nullptr},
               {"steps_lost", record.steps_lost},
               {"resume", record.resume},
               {"stacks", record.stacks.empty() ? json() : json(record.stacks)}};
  if (const auto& saved = record.last_checkpoint)
    text["last_checkpoint"] = {{"path", saved->path.string()},
                               {"step", saved->step},
                               {"sha256", saved->manifest_sha256.empty() ? json() : json(saved->manifest_sha256)}};
  json& ring = text["ring"] = json::array();
  for (const FaultRecord::Operation& operation : record.operations)
    ring.push_back(fmt::format("{:.3f} s ago: {}", operation.ago_s, operation.name));
  // A path may not be valid UTF-8.
  return text.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string fault_name(std::optional<int> rank, int process) { return stem(rank, process) + std::string(kRecordEnd); }

std::string fault_stacks_name(std::optional<int> rank, int process) {
  return stem(rank, process) + std::string(kStacksEnd);
}

bool is_fault_name(const std::string& name) {
  constexpr std::string_view kBegin = "fault-", kProcess = "process-";
  std::string_view rest(name);
  for (const std::string_view end : {kRecordEnd, kStacksEnd})
    if (rest.ends_with(end)) {
      rest.remove_suffix(end.size());
      if (rest == "fault") return true;
      if (!rest.starts_with(kBegin)) return false;
      rest.remove_prefix(kBegin.size());
      if (rest.starts_with(kProcess)) rest.remove_prefix(kProcess.size());
      return !rest.empty() && std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; });
    }
  return false;
}

}  // namespace dptrain::train
