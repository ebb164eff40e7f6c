#include "optim/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "config/f32_range.h"

namespace dptrain::optim {
namespace {

/// A rate that changes by no more than this counts as unchanged, as in PyTorch.
constexpr double kLeastChange = 1e-8;

double falling_cosine(double from, double to, double share) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

void read_warmup(ConfigReader& options, ScheduleSpec& spec) {
  spec.warmup_steps =
      options.optional_integer("warmup_steps", {.min = 0, .help = "steps in which the rate grows to its full size"})
          .value_or(0);
  spec.warmup_epochs =
      options.optional_number("warmup_epochs", {.min = 0, .max = 1000000, .help = "the same in epochs"}).value_or(0);
  if (options.has("warmup_steps") && options.has("warmup_epochs"))
    options.mistake("warmup_epochs", "expected warmup_steps or warmup_epochs", "both", "leave one of them out");
}

double read_gamma(ConfigReader& options) {
  return options.number("gamma", 0.1,
                        {.min = 0, .max = kMostF32, .exclusive_min = true, .help = "what the rate is multiplied by"});
}

void read_milestones(ConfigReader& options, ScheduleSpec& spec) {
  spec.milestones = options.integers("milestones", std::nullopt,
                                     {.min = 1, .help = "epochs after which the rate is multiplied: [150, 225]"});
  if (options.describing() || !options.has("milestones")) return;
  if (spec.milestones.empty())
    options.mistake("milestones", "expected epochs", "none", "write schedule: constant");
  else if (std::ranges::adjacent_find(spec.milestones, std::greater_equal()) != spec.milestones.end())
    options.mistake("milestones", "expected epochs in rising order",
                    fmt::format("[{}]", fmt::join(spec.milestones, ", ")), "sort them, and list each one once");
}

void read_plateau(ConfigReader& options, ScheduleSpec& spec) {
  read_warmup(options, spec);
  PlateauSpec& plateau = spec.plateau;
  plateau.factor = options.number(
      "factor", 0.1,
      {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true, .help = "what the rate is multiplied by"});
  plateau.patience = options.integer(
      "patience", 10, {.min = 0, .help = "evaluations in a row without improvement before the rate is lowered"});
  plateau.threshold = options.number("threshold", 1e-4,
                                     {.min = 0,
                                      .max = 1,
                                      .exclusive_max = true,
                                      .help = "relative improvement over the best evaluation that counts as better"});
  spec.min = options.number("min", 0.0, {.min = 0, .max = kMostF32, .help = "the lowest rate"});
}

}  // namespace

ScheduleSpec read_schedule(ConfigReader& config) {
  ScheduleSpec spec;
  const auto read_min = [&spec](ConfigReader& options) {
    read_warmup(options, spec);
    spec.min = options.number("min", 0.0, {.min = 0, .max = kMostF32, .help = "the rate at the end"});
  };
  const std::vector<ConfigChoice> choices = {
      {"constant", "the same rate throughout", [&](ConfigReader& options) { read_warmup(options, spec); }},
      {"step", "a lower rate after every few epochs",
       [&](ConfigReader& options) {
         read_warmup(options, spec);
         spec.every_epochs = options.integer("every_epochs", 30, {.min = 1, .help = "epochs with one rate"});
         spec.gamma = read_gamma(options);
       }},
      {"multi_step", "a lower rate after each of the listed epochs",
       [&](ConfigReader& options) {
         read_warmup(options, spec);
         read_milestones(options, spec);
         spec.gamma = read_gamma(options);
       }},
      {"cosine", "down along half a cosine", read_min},
      {"linear", "down along a line", read_min},
      {"polynomial", "down along a power of the share of the training that is left",
       [&](ConfigReader& options) {
         read_min(options);
         spec.power = options.number("power", 1.0,
                                     {.min = 0, .max = 100, .exclusive_min = true, .help = "1: down along a line"});
       }},
      {"one_cycle", "up along a cosine, and further down along another",
       [&](ConfigReader& options) {
         spec.peak_at = options.number("peak_at", 0.3,
                                       {.min = 0,
                                        .max = 1,
                                        .exclusive_min = true,
                                        .exclusive_max = true,
                                        .help = "the share of all steps before the highest rate"});
       }},
      {"plateau", "a lower rate when validation gets no better",
       [&](ConfigReader& options) { read_plateau(options, spec); }},
  };
  using Kind = ScheduleSpec::Kind;
  const std::string name = config.named("schedule", choices, "constant", "how the learning rate changes");
  spec.kind = name == "step"         ? Kind::step
              : name == "multi_step" ? Kind::multi_step
              : name == "cosine"     ? Kind::cosine
              : name == "linear"     ? Kind::linear
              : name == "polynomial" ? Kind::polynomial
              : name == "one_cycle"  ? Kind::one_cycle
              : name == "plateau"    ? Kind::plateau
                                     : Kind::constant;
  return spec;
}

int64_t ScheduleSpec::warmup_of(int64_t steps_per_epoch) const {
  return warmup_epochs > 0 ? std::llround(warmup_epochs * static_cast<double>(steps_per_epoch)) : warmup_steps;
}

Schedule::Schedule(const ScheduleSpec& spec, double base, int64_t steps_per_epoch, int64_t steps)
    : spec_(spec),
      base_(base),
      steps_per_epoch_(steps_per_epoch),
      steps_(steps),
      warmup_(spec.warmup_of(steps_per_epoch)) {}

double Schedule::rate(int64_t step) const {
  if (step <= warmup_) return base() * static_cast<double>(step) / static_cast<double>(warmup_);
  const auto share =
      static_cast<double>(step - 1 - warmup_) / static_cast<double>(std::max<int64_t>(steps_ - warmup_, 1));
  switch (spec_.kind) {
    case ScheduleSpec::Kind::constant:
    case ScheduleSpec::Kind::plateau: return base();
    case ScheduleSpec::Kind::step: {
      const int64_t epochs = (step - 1) / steps_per_epoch_;
      return base_ * std::pow(spec_.gamma, static_cast<double>(epochs / spec_.every_epochs));
    }
    case ScheduleSpec::Kind::multi_step: {
      const int64_t epochs = (step - 1) / steps_per_epoch_;
      const auto passed = std::ranges::upper_bound(spec_.milestones, epochs) - spec_.milestones.begin();
      return base_ * std::pow(spec_.gamma, static_cast<double>(passed));
    }
    case ScheduleSpec::Kind::cosine: return falling_cosine(base_, spec_.min, share);
    case ScheduleSpec::Kind::linear: return base_ + (spec_.min - base_) * share;
    case ScheduleSpec::Kind::polynomial: return spec_.min + (base_ - spec_.min) * std::pow(1 - share, spec_.power);
    case ScheduleSpec::Kind::one_cycle: return one_cycle(step);
  }
  return base_;
}

double Schedule::base() const {
  return spec_.kind == ScheduleSpec::Kind::plateau ? std::max(base_ * scale_, spec_.min) : base_;
}

bool Schedule::reduce() {
  const double before = base(), scale = scale_ * spec_.plateau.factor;
  if (before - std::max(base_ * scale, spec_.min) <= kLeastChange) return false;
  scale_ = scale;
  return true;
}

double Schedule::one_cycle(int64_t step) const {
  const double first = base_ / 25, last = first / 1e4;
  const double at = static_cast<double>(step - 1), end = static_cast<double>(steps_ - 1);
  const double peak = spec_.peak_at * static_cast<double>(steps_) - 1;
  if (at <= peak) return falling_cosine(first, base_, peak > 0 ? at / peak : 1);
  return falling_cosine(base_, last, (at - peak) / (end - peak));
}

}  // namespace dptrain::optim
