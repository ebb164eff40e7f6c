#include "train/fault_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dptrain::train {

std::string fault_json(const FaultRecord& record) {
  using json = nlohmann::ordered_json;
  const FaultRecord::Root& root = record.root;
  json text = {{"schema", 1},
               {"run", record.run},
               {"process", record.process},
               {"exit", record.exit},
               {"root",
                {{"process", root.process},
                 {"host", root.host},
                 {"pid", root.pid},
                 {"step", root.step ? json(*root.step) : json()},
                 {"cause", root.cause}}},
               {"last_checkpoint", nullptr},
               {"steps_lost", record.steps_lost},
               {"resume", record.resume}};
  if (const auto& saved = record.last_checkpoint)
    text["last_checkpoint"] = {{"path", saved->path.string()}, {"step", saved->step}};
  // A path need not be UTF-8.
  return text.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string fault_name(int process) { return process == 0 ? "fault.json" : fmt::format("fault-{}.json", process); }

bool is_fault_name(const std::string& name) {
  constexpr std::string_view kBegin = "fault-", kEnd = ".json";
  if (name == "fault.json") return true;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) return false;
  return std::all_of(name.begin() + kBegin.size(), name.end() - kEnd.size(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace dptrain::train
