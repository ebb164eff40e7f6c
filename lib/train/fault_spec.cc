#include "train/fault_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"

namespace dptrain::train {
namespace {

using parallel::InjectedFault;
using Kind = InjectedFault::Kind;

/// A kind of fault: its name on the command line, and its keys besides rank and step.
struct KindWords {
  Kind kind;
  const char* name;
  const char* happens;  ///< the event in a sentence about a rank
  const char* example;
  std::vector<std::string> keys = {};
};

const std::vector<KindWords>& kinds() {
  static const std::vector<KindWords> all = {
      {Kind::kill, "kill", "is killed", "kill:rank=1,step=37"},
      {Kind::stop, "stop", "is stopped", "stop:rank=1,step=37,seconds=5", {"seconds"}},
      {Kind::hang, "hang", "hangs", "hang:rank=1,step=37"},
      {Kind::memory, "memory", "runs out of memory", "memory:rank=1,step=37"},
      {Kind::slow, "slow", "is late", "slow:rank=1,ms=20", {"ms", "steps"}},
      {Kind::flip, "flip", "has a wrong bit in a weight", "flip:rank=1,step=37", {"parameter"}},
      {Kind::nan, "nan", "has NaN in a weight", "nan:rank=1,step=37", {"parameter"}}};
  return all;
}

const KindWords& words_of(Kind kind) { return *std::ranges::find(kinds(), kind, &KindWords::kind); }

/// Reads the keys of one fault and takes each once.
class FaultReader {
 public:
  explicit FaultReader(const std::string& text) : text_(text) {
    const size_t colon = text.find(':');
    read_kind(text.substr(0, colon));
    if (colon != std::string::npos) read_keys(text.substr(colon + 1));
  }

  Kind kind() const { return words_->kind; }
  bool has(const std::string& key) const { return find(key) != values_.end(); }
  std::string text(const std::string& key) const { return find(key)->second; }
  std::string name(const std::string& key) const {
    const std::string value = text(key);
    if (value.empty()) refuse(fmt::format("expected {} as a name", key), "nothing");
    return value;
  }
  int64_t integer(const std::string& key, int64_t least, int64_t most) const {
    const std::string value = text(key);
    int64_t number = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failed != std::errc() || end != value.data() + value.size() || number < least || number > most)
      refuse(fmt::format("expected {} as an integer from {} to {}", key, least, most), value);
    return number;
  }
  double number(const std::string& key, double least, double most) const {
    const std::string value = text(key);
    double number = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failed != std::errc() || end != value.data() + value.size() || !(number >= least && number <= most))
      refuse(fmt::format("expected {} as a number from {} to {}", key, least, most), value);
    return number;
  }
  void require(const std::string& key) const {
    if (!has(key)) refuse(fmt::format("expected {}=", key), "none");
  }

 private:
  using Values = std::vector<std::pair<std::string, std::string>>;

  void read_kind(const std::string& name) {
    const auto found = std::ranges::find_if(kinds(), [&](const KindWords& one) { return one.name == name; });
    if (found != kinds().end()) {
      words_ = &*found;
      return;
    }
    std::vector<std::string> names;
    for (const KindWords& one : kinds()) names.emplace_back(one.name);
    throw Error(ExitCode::usage, Mistake{.where = "--fault",
                                         .expected = "expected a kind of fault and its keys",
                                         .got = fmt::format("'{}'", text_),
                                         .advice = suggestion(name, names)});
  }
  void read_keys(const std::string& list) {
    std::vector<std::string> known = {"rank", "step"};
    known.insert(known.end(), words_->keys.begin(), words_->keys.end());
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      const std::string entry = list.substr(begin, end - begin);
      const size_t equals = entry.find('=');
      const std::string key = entry.substr(0, equals);
      if (std::ranges::find(known, key) == known.end())
        refuse(fmt::format("expected one of {} for {}", fmt::join(known, ", "), words_->name),
               fmt::format("'{}'", key));
      if (has(key)) refuse(fmt::format("expected {} once", key), fmt::format("'{}' again", entry));
      values_.emplace_back(key, equals == std::string::npos ? "" : entry.substr(equals + 1));
      begin = end + 1;
    }
  }
  Values::const_iterator find(const std::string& key) const {
    return std::ranges::find(values_, key, &Values::value_type::first);
  }
  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const {
    throw Error(ExitCode::usage, Mistake{.where = fmt::format("--fault {}", text_),
                                         .expected = expected,
                                         .got = got.empty() ? "nothing" : got,
                                         .advice = fmt::format("write for instance --fault {}", words_->example)});
  }

  const std::string& text_;
  const KindWords* words_ = nullptr;
  Values values_;
};

constexpr int64_t kMostSteps = 1'000'000'000;
constexpr double kLongest_s = 86400;

/// "steps 10 to 19", "every step".
std::string steps_of(const InjectedFault& slow) {
  if (slow.steps == 1) return fmt::format("step {}", slow.step);
  if (slow.steps > 0) return fmt::format("steps {} to {}", slow.step, slow.step + slow.steps - 1);
  return slow.step > 1 ? fmt::format("every step from {} on", slow.step) : "every step";
}

}  // namespace

InjectedFault read_fault(const std::string& text) {
  const FaultReader keys(text);
  InjectedFault fault{.kind = keys.kind()};
  keys.require(fault.kind == Kind::slow ? "ms" : "step");
  if (keys.has("rank")) fault.rank = static_cast<int>(keys.integer("rank", 0, 65535));
  if (keys.has("step")) fault.step = keys.integer("step", 1, kMostSteps);
  if (keys.has("steps")) fault.steps = keys.integer("steps", 1, kMostSteps);
  if (keys.has("seconds")) fault.seconds = keys.number("seconds", 0.1, kLongest_s);
  if (keys.has("ms")) fault.seconds = keys.number("ms", 0.001, kLongest_s * 1e3) / 1e3;
  if (keys.has("parameter")) fault.parameter = keys.name("parameter");
  return fault;
}

std::string fault_text(const InjectedFault& fault) {
  std::string text = fmt::format("{}:rank={},step={}", words_of(fault.kind).name, fault.rank, fault.step);
  if (fault.kind == Kind::slow) text += fmt::format(",ms={:g}", fault.seconds * 1e3);
  if (fault.kind == Kind::slow && fault.steps > 0) text += fmt::format(",steps={}", fault.steps);
  if (fault.kind == Kind::stop && fault.seconds > 0) text += fmt::format(",seconds={:g}", fault.seconds);
  if (!fault.parameter.empty()) text += fmt::format(",parameter={}", fault.parameter);
  return text;
}

std::vector<std::string> fault_texts(const std::vector<InjectedFault>& faults) {
  std::vector<std::string> texts;
  for (const InjectedFault& fault : faults) texts.push_back(fault_text(fault));
  return texts;
}

std::string fault_sentence(const InjectedFault& fault, const std::string& rank_name) {
  const std::string begin = fmt::format("{} {}", rank_name, words_of(fault.kind).happens);
  switch (fault.kind) {
    case Kind::slow: return begin + fmt::format(" by {:g} ms in {}", fault.seconds * 1e3, steps_of(fault));
    case Kind::stop:
      if (fault.seconds > 0) return begin + fmt::format(" for {:g} s before step {}", fault.seconds, fault.step);
      break;
    case Kind::flip:
    case Kind::nan:
      return begin + fmt::format("{} from the end of step {} on",
                                 fault.parameter.empty() ? "" : fmt::format(" of {}", fault.parameter), fault.step);
    case Kind::kill:
    case Kind::hang:
    case Kind::memory: break;
  }
  return begin + fmt::format(" before step {}", fault.step);
}

void require_ranks(const std::vector<InjectedFault>& faults, size_t ranks, bool is_job) {
  for (const InjectedFault& fault : faults) {
    const auto refuse = [where = fmt::format("--fault {}", fault_text(fault))](
                            const std::string& expected, const std::string& got, const std::string& advice) {
      throw Error(ExitCode::usage, Mistake{.where = where, .expected = expected, .got = got, .advice = advice});
    };
    if (fault.kind == Kind::hang && ranks == 1)
      refuse("expected other ranks, which wait for it for timeout_s at most", "none",
             "add a device, as no timeout ends a device that computes alone");
    if (fault.kind == Kind::stop && fault.seconds == 0 && !is_job)
      refuse("expected seconds, or other processes, which notice that it is stopped", "neither",
             "add for instance seconds=5, as nothing wakes a process that runs alone");
    if (static_cast<size_t>(fault.rank) >= ranks)
      refuse(ranks == 1 ? "expected rank=0, the only one" : fmt::format("expected a rank from 0 to {}", ranks - 1),
             std::to_string(fault.rank), "ranks are the run's devices, in their order");
  }
}

}  // namespace dptrain::train
