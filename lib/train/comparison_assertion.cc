#include "train/comparison_assertion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/error.h"
#include "base/nearest_name.h"
#include "config/yaml_scalar.h"

namespace dptrain::train {

struct ComparisonAssertion::Metric {
  enum class Of { run, later_run, all };

  const char* name;
  Of of;
  bool needs_evaluation;
  bool needs_target;
  bool is_share;
  std::optional<double> (*value)(std::span<const RunFigures> all, const RunFigures& run);
};

const ComparisonAssertion::Metric ComparisonAssertion::kMetrics[] = {
    {"speedup", Metric::Of::later_run, false, false, false,
     [](std::span<const RunFigures> all, const RunFigures& run) { return std::optional(speedup(all.front(), run)); }},
    {"efficiency", Metric::Of::later_run, false, false, false,
     [](std::span<const RunFigures> all, const RunFigures& run) {
       return std::optional(efficiency(all.front(), run));
     }},
    {"samples_per_s", Metric::Of::run, false, false, false,
     [](std::span<const RunFigures>, const RunFigures& run) { return std::optional(run.samples_per_s()); }},
    {"accuracy", Metric::Of::run, true, false, true,
     [](std::span<const RunFigures>, const RunFigures& run) { return run.accuracy(); }},
    {"accuracy_gap", Metric::Of::all, true, false, true,
     [](std::span<const RunFigures> all, const RunFigures&) { return accuracy_gap(all); }},
    {"seconds_to_target", Metric::Of::run, true, true, false,
     [](std::span<const RunFigures>, const RunFigures& run) { return run.mean_seconds_to_target(); }},
    {"peak_bytes", Metric::Of::run, false, false, false,
     [](std::span<const RunFigures>, const RunFigures& run) {
       return std::optional(static_cast<double>(run.peak_bytes()));
     }},
    {"memory_imbalance", Metric::Of::run, false, false, false,
     [](std::span<const RunFigures>, const RunFigures& run) { return std::optional(run.memory_imbalance()); }},
    {"exposed_comm_s", Metric::Of::run, false, false, false,
     [](std::span<const RunFigures>, const RunFigures& run) { return std::optional(run.exposed_comm_s()); }},
};

struct ComparisonAssertion::Operator {
  const char* text;
  bool (*holds)(double value, double bound);
};

// Of two operators with the same beginning, the longer one comes first.
const ComparisonAssertion::Operator ComparisonAssertion::kOperators[] = {
    {"<=", [](double value, double bound) { return value <= bound; }},
    {">=", [](double value, double bound) { return value >= bound; }},
    {"==", [](double value, double bound) { return value == bound; }},
    {"!=", [](double value, double bound) { return value != bound; }},
    {"<", [](double value, double bound) { return value < bound; }},
    {">", [](double value, double bound) { return value > bound; }},
};

/// Parses an expression from left to right.
class ComparisonAssertion::Parser {
 public:
  explicit Parser(std::string_view expression) : text_(expression) {}

  const Metric* metric() {
    skip_spaces();
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    const auto* found =
        std::ranges::find(kMetrics, name, [](const Metric& metric) { return std::string(metric.name); });
    if (found != std::end(kMetrics)) return found;
    std::vector<std::string> known;
    for (const Metric& metric : kMetrics) known.emplace_back(metric.name);
    at_ = begin;
    refuse("expected a metric", suggestion(name, known));
  }

  /// The run's name, if given. Users' names may contain anything, so it looks for known names, the longest first.
  std::optional<std::string> run(std::span<const AssertedRun> runs) {
    skip_spaces();
    if (!text_.substr(at_).starts_with('(')) return std::nullopt;
    ++at_;
    std::vector<std::string> names;
    for (const AssertedRun& run : runs) names.push_back(run.name);
    const std::string_view rest = text_.substr(at_);
    std::string found;
    for (const std::string& name : names)
      if (rest.starts_with(name + ")") && name.size() > found.size()) found = name;
    if (found.empty()) refuse("expected the name of a run and ')'", fmt::format("runs are {}", fmt::join(names, ", ")));
    at_ += found.size() + 1;
    return found;
  }

  const Operator* comparison() {
    skip_spaces();
    for (const Operator& candidate : kOperators) {
      if (!text_.substr(at_).starts_with(candidate.text)) continue;
      at_ += std::string_view(candidate.text).size();
      return &candidate;
    }
    refuse("expected one of < <= > >= == !=", "write for instance accuracy>=0.97");
  }

  double number() {
    skip_spaces();
    std::string_view rest = text_.substr(at_);
    rest = rest.substr(0, rest.find_last_not_of(' ') + 1);
    if (const auto value = plain_number(rest)) return *value;
    refuse("expected a number", "write for instance accuracy>=0.97");
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& advice) const {
    const std::string_view rest = text_.substr(at_);
    throw Error(ExitCode::usage, Mistake{.where = fmt::format("--assert '{}': column {}", text_, at_ + 1),
                                         .expected = expected,
                                         .got = rest.empty() ? "nothing" : fmt::format("'{}'", rest),
                                         .advice = advice});
  }

  void skip_spaces() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

ComparisonAssertion::ComparisonAssertion(std::string_view expression, std::span<const AssertedRun> runs)
    : expression_(expression) {
  Parser parser(expression_);
  metric_ = parser.metric();
  parser.skip_spaces();
  const Parser before_run = parser;
  run_ = parser.run(runs);
  if (run_ && metric_->of == Metric::Of::all)
    before_run.refuse(fmt::format("{} covers all runs together; expected an operator", metric_->name),
                      fmt::format("leave ({}) out", *run_));
  operator_ = parser.comparison();
  const Parser before_bound = parser;
  bound_ = parser.number();
  if (metric_->is_share && (bound_ < -1 || bound_ > 1))
    before_bound.refuse(fmt::format("{} is a share, expected a number from 0 to 1", metric_->name),
                        fmt::format("write {:g} for {:g} %", bound_ / 100, bound_));
  if (metric_->needs_target && std::ranges::none_of(runs, &AssertedRun::has_target))
    throw Error(ExitCode::usage, Mistake{.where = fmt::format("--assert '{}'", expression_),
                                         .expected = fmt::format("{} needs a target accuracy", metric_->name),
                                         .got = "",
                                         .advice = "add for instance --target 0.95"});
  for (const AssertedRun& run : runs)
    if (metric_->needs_evaluation && !run.evaluated && (!run_ || *run_ == run.name))
      throw Error(ExitCode::usage, Mistake{.where = fmt::format("--assert '{}'", expression_),
                                           .expected = fmt::format("run '{}' has no test accuracy", run.name),
                                           .got = "",
                                           .advice = "evaluate it with --set eval_every=1"});
}

AssertionOutcome ComparisonAssertion::check(std::span<const RunFigures> runs) const {
  AssertionOutcome outcome{.holds = true, .expression = expression_, .sentence = {}};
  std::vector<std::string> values, violations;
  const auto look_at = [&](const std::string& label, const RunFigures& run) {
    const auto value = metric_->value(runs, run);
    const bool holds = value && operator_->holds(*value, bound_);
    std::string shown = value                   ? fmt::format("{:.6g}", *value)
                        : metric_->needs_target ? "unknown, as not every training run has reached the target"
                                                : "unknown, as nothing was evaluated";
    // A rounded value must not appear on the other side of the bound.
    if (const auto rounded = plain_number(shown); rounded && operator_->holds(*rounded, bound_) != holds)
      shown = fmt::format("{}", *value);
    (holds ? values : violations).push_back(fmt::format("{} is {}", label, shown));
  };
  if (metric_->of == Metric::Of::all) {
    look_at(metric_->name, runs.front());
  } else {
    for (const RunFigures& run : runs)
      if (run_ ? run.run == *run_ : metric_->of == Metric::Of::run || &run != &runs.front())
        look_at(fmt::format("{}({})", metric_->name, run.run), run);
  }
  outcome.holds = violations.empty();
  outcome.sentence = fmt::format("{} {}: {}", expression_, outcome.holds ? "holds" : "failed",
                                 fmt::join(outcome.holds ? values : violations, ", "));
  return outcome;
}

}  // namespace dptrain::train
