#include "train/gate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/counted.h"
#include "base/digit_groups.h"
#include "base/text_table.h"
#include "config/config_document.h"
#include "train/config_changes.h"
#include "train/config_difference.h"

namespace dptrain::train {
namespace {

using nlohmann::ordered_json;
using Finding = GateReport::Finding;
using GateVerdict = Finding::Verdict;

/// A device may hold more by this part of the blessed memory: one hundredth.
constexpr int64_t kMemoryShare = 100;

std::string_view gate_verdict_name(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::equal: return "equal";
    case GateVerdict::within: return "within its bound";
    case GateVerdict::less: return "less";
    case GateVerdict::other_bits: return "other bits";
    case GateVerdict::differs: return "differs";
    case GateVerdict::not_compared: return "not compared";
  }
  return {};
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.2f} MB", static_cast<double>(bytes) / 1e6); }

/// The top-level keys in which the configurations differ.
std::vector<std::string> differing(const Blessing& a, const Blessing& b) {
  std::vector<std::string> keys;
  for (const DifferingKey& key :
       differing_keys({parse_config(a.config, "the blessed one"), parse_config(b.config, "this one")}, {"name"}))
    keys.push_back(key.key.substr(0, key.key.find('.')));
  return keys;
}

/// Compares a number that each step has: finds the first step in which the two differ, or else reports the first step.
template <class Number, class Alike>
Finding of_steps(const char* what, const FirstSteps& blessed, const FirstSteps& now, Number FirstSteps::Step::*number,
                 const Alike& alike) {
  size_t at = 0;
  while (at < blessed.steps.size() && alike(blessed.steps[at].*number, now.steps[at].*number)) ++at;
  const bool differs = at < blessed.steps.size();
  if (!differs) at = 0;
  return {.what = fmt::format("{} of step {}", what, at + 1),
          .blessed = fmt::format("{}", blessed.steps[at].*number),
          .now = fmt::format("{}", now.steps[at].*number),
          .verdict = differs ? GateVerdict::differs : GateVerdict::equal};
}

Finding losses(const Blessing& blessed, const FirstSteps& now) {
  const auto& steps = blessed.first.steps;
  size_t told = 0, beyond = 0;
  double nearest = -1;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double off = std::abs(now.steps[i].loss - steps[i].loss);
    // A NaN loss is never within its bound.
    const bool within = off <= blessed.loss_bounds[i];
    if (!within && beyond++ == 0) told = i;
    if (beyond == 0 && off / blessed.loss_bounds[i] > nearest) {
      nearest = off / blessed.loss_bounds[i];
      told = i;
    }
  }
  Finding finding{.what = fmt::format("loss of step {}", told + 1),
                  .blessed = fmt::format("{:.7g}", steps[told].loss),
                  .now = fmt::format("{:.7g}", now.steps[told].loss),
                  .verdict = beyond > 0    ? GateVerdict::differs
                             : nearest > 0 ? GateVerdict::within
                                           : GateVerdict::equal};
  if (beyond == 0) return finding;
  finding.sentence = fmt::format("{}: {}, expected the blessed {} within {:.2g}{}", finding.what, finding.now,
                                 finding.blessed, blessed.loss_bounds[told],
                                 beyond > 1 ? fmt::format(" ({} of {} steps differ)", beyond, steps.size()) : "");
  return finding;
}

std::vector<Finding> sent(const FirstSteps& blessed, const FirstSteps& now, const std::string& why_not) {
  const auto found = [&](const char* what, int64_t expected, int64_t got) {
    Finding finding{.what = what,
                    .blessed = digit_groups(static_cast<double>(expected)),
                    .now = digit_groups(static_cast<double>(got))};
    if (!why_not.empty()) {
      finding.verdict = GateVerdict::not_compared;
      finding.sentence = why_not;
    } else if (got != expected) {
      finding.verdict = GateVerdict::differs;
    }
    return finding;
  };
  return {found("bytes sent", blessed.sent.bytes, now.sent.bytes),
          found("calls of collectives", blessed.sent.collectives, now.sent.collectives)};
}

std::vector<Finding> memory(const FirstSteps& blessed, const FirstSteps& now, const std::string& why_not) {
  std::vector<Finding> findings;
  for (size_t r = 0; r < std::min(blessed.devices.size(), now.devices.size()); ++r) {
    const int64_t expected = blessed.devices[r].peak_bytes, got = now.devices[r].peak_bytes;
    Finding finding{.what = fmt::format("peak of rank {} ({})", r, now.devices[r].name),
                    .blessed = megabytes(expected),
                    .now = megabytes(got)};
    if (!why_not.empty()) {
      finding.verdict = GateVerdict::not_compared;
      finding.sentence = why_not;
    } else if (got > expected) {
      finding.verdict = got - expected > expected / kMemoryShare ? GateVerdict::differs : GateVerdict::within;
    } else if (got < expected) {
      finding.verdict = GateVerdict::less;
    }
    findings.push_back(finding);
  }
  return findings;
}

std::string short_hash(const std::string& hash) { return hash.substr(0, 16); }

}  // namespace

std::vector<Finding> GateReport::findings() const {
  const FirstSteps &was = blessed.first, &is = now.first;
  const std::vector<std::string> keys = differing(blessed, now);
  const auto differ = [&](const char* key) { return std::ranges::find(keys, key) != keys.end(); };
  std::string why_not_sent;
  if (differ("strategy"))
    why_not_sent = "the strategy is different";
  else if (was.devices.size() != is.devices.size())
    why_not_sent = "the number of devices is different";
  else if (blessed.instructions != now.instructions)
    why_not_sent =
        fmt::format("this processor has {}, the blessed run's processor {}", now.instructions, blessed.instructions);
  std::string why_not_memory = why_not_sent;
  if (why_not_memory.empty() && (differ("devices") || differ("threads")))
    why_not_memory = "the devices or their threads are different";
  else if (why_not_memory.empty() && differ("steps_in_flight"))
    why_not_memory = "steps_in_flight is different";
  else if (why_not_memory.empty() && now.memory_varies)
    why_not_memory = "the memory of threads that compute shards varies with their timing";

  const auto nearly = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(a); };
  std::vector<Finding> all = {of_steps("learning rate", was, is, &FirstSteps::Step::learning_rate, nearly),
                              of_steps("samples", was, is, &FirstSteps::Step::samples, std::equal_to<>()),
                              losses(blessed, is)};
  for (auto& more : {sent(was, is, why_not_sent), memory(was, is, why_not_memory)})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back({.what = "weights",
                 .blessed = short_hash(was.weights_hash),
                 .now = short_hash(is.weights_hash),
                 .verdict = was.weights_hash == is.weights_hash ? GateVerdict::equal : GateVerdict::other_bits});
  for (Finding& finding : all)
    if (finding.verdict == GateVerdict::differs && finding.sentence.empty())
      finding.sentence = fmt::format("{}: {}, expected the blessed {}", finding.what, finding.now, finding.blessed);
  return all;
}

std::string GateReport::changes() const { return changes_between(blessed.config, now.config, {"name"}); }

std::vector<std::string> GateReport::failures() const {
  std::vector<std::string> sentences;
  for (const Finding& finding : findings())
    if (finding.verdict == GateVerdict::differs) sentences.push_back(finding.sentence);
  if (sentences.empty()) return sentences;
  const std::string changed = changes();
  sentences.front() +=
      changed.empty() ? "; the configuration is the blessed one" : fmt::format("; changed since: {}", changed);
  return sentences;
}

std::string GateReport::text(int width) const {
  std::string text = wrapped(fmt::format("{}: {} on {}, against {} of dptrain {} ({}, {})", now.run,
                                         counted(static_cast<int64_t>(now.first.steps.size()), "step"),
                                         now.instructions, file, blessed.version, blessed.commit, blessed.instructions),
                             width);
  std::vector<TableColumn> columns = {{.header = "", .cells = {}, .left_aligned = true},
                                      {.header = "blessed", .cells = {}},
                                      {.header = "now", .cells = {}},
                                      {.header = "", .cells = {}, .left_aligned = true}};
  std::vector<std::string> reasons;
  for (const Finding& finding : findings()) {
    add_row(columns, {finding.what, finding.blessed, finding.now, std::string(gate_verdict_name(finding.verdict))});
    if (finding.verdict == GateVerdict::not_compared && std::ranges::find(reasons, finding.sentence) == reasons.end())
      reasons.push_back(finding.sentence);
  }
  text += "\n" + text_table(columns, width);
  for (const std::string& reason : reasons) text += wrapped(fmt::format("not compared: {}", reason), width);
  if (const std::string changed = changes(); !changed.empty()) text += wrapped("changed since: " + changed, width);
  return text;
}

std::string GateReport::json() const {
  ordered_json found = ordered_json::array(), steps = ordered_json::array();
  for (const Finding& finding : findings())
    found.push_back({{"what", finding.what},
                     {"blessed", finding.blessed},
                     {"now", finding.now},
                     {"verdict", gate_verdict_name(finding.verdict)},
                     {"sentence", finding.sentence.empty() ? ordered_json(nullptr) : ordered_json(finding.sentence)}});
  for (size_t i = 0; i < now.first.steps.size(); ++i) {
    const double loss = now.first.steps[i].loss;
    steps.push_back({{"step", i + 1},
                     {"loss", std::isfinite(loss) ? ordered_json(loss) : ordered_json(nullptr)},
                     {"blessed", blessed.first.steps[i].loss},
                     {"bound", blessed.loss_bounds[i]}});
  }
  const ordered_json document = {
      {"schema", 1},          {"run", now.run},    {"blessing", file}, {"passed", failures().empty()},
      {"changes", changes()}, {"findings", found}, {"steps", steps}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace dptrain::train
