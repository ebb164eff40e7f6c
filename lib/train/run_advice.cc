#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "train/run_figures.h"

namespace dptrain::train {
namespace {

/// A possible cause of a slow run besides computing, and what would help.
struct Cause {
  double TimeShares::*share;
  const char* words;
  const char* help;
};

constexpr std::array<Cause, 4> kCauses = {{
    {&TimeShares::exposed_comm_s, "is exposed communication", "a larger batch per device would help"},
    {&TimeShares::data_wait_s, "is waiting for data", "fewer devices or less augmentation would help"},
    {&TimeShares::optimizer_s, "is the optimizer", "a larger batch, which needs fewer updates, would help"},
    {&TimeShares::other_s, "is neither computing nor communication nor data",
     "a larger batch, which needs fewer steps, would help"},
}};

/// A smaller share isn't a cause.
constexpr double kSmallestShare = 0.15;

/// The straggler, if all trainings of a run had the same one; the figures are from the last training.
std::optional<Straggler> straggler_of(const RunFigures& run) {
  const std::optional<Straggler>& last = run.trainings.back().straggler;
  const auto is_it = [&last](const TrainingFigures& training) {
    return training.straggler && last && training.straggler->rank == last->rank;
  };
  return std::ranges::all_of(run.trainings, is_it) ? last : std::nullopt;
}

/// The samples per device, rounded up to a power of two, from which on `run` would be faster than `first`. Assumes the
/// same computing time per sample and the same communication time per step. None if computing alone takes `run` longer
/// than `first` takes in all.
std::optional<int64_t> paying_batch(const RunFigures& first, const RunFigures& run) {
  const double exposed_s = run.exposed_comm_s();
  const double spared_s = run.seconds_per_epoch() * speedup(first, run) - (run.seconds_per_epoch() - exposed_s);
  if (run.device_batch == 0 || spared_s <= 0) return std::nullopt;
  const double batch = static_cast<double>(run.device_batch) * exposed_s / spared_s;
  // For larger batches a step's other costs change, too.
  constexpr double kLargest = 1 << 16;
  if (batch > kLargest) return std::nullopt;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::ceil(batch))));
}

std::string help(const Cause& cause, const RunFigures& first, const RunFigures& run) {
  if (cause.share != &TimeShares::exposed_comm_s) return cause.help;
  const auto straggler = straggler_of(run);
  if (!straggler) {
    std::string text = cause.help;
    if (const auto batch = paying_batch(first, run))
      text += fmt::format(": by these figures this run becomes the faster one at per_device_batch_size: {}", *batch);
    return text;
  }
  return fmt::format("the others wait for rank {} ({}), which computes {:.1f} times as long as they do",
                     straggler->rank, run.devices[static_cast<size_t>(straggler->rank)], straggler->slower);
}

}  // namespace

std::optional<std::string> advice(const RunFigures& first, const RunFigures& run) {
  const double factor = speedup(first, run);
  if (factor <= 0 || factor >= 1) return std::nullopt;
  if (const auto difference = seconds_difference(first, run); difference && !difference->significant)
    return std::nullopt;
  const TimeShares time = run.time();
  const Cause& cause = *std::ranges::max_element(kCauses, {}, [&](const Cause& one) { return time.*one.share; });
  const double share = time.*cause.share / run.seconds_per_epoch();
  const std::string devices = fmt::format("{} device{}", run.devices.size(), run.devices.size() == 1 ? "" : "s");
  const std::string begin = fmt::format("{}, {}: {:.2g}x; ", run.run, devices, factor);
  // A smaller share is also a cause if it alone explains how much slower the run is.
  const double slower_s = (1 - factor) * run.seconds_per_epoch();
  if (share >= kSmallestShare || time.*cause.share >= slower_s)
    return begin + fmt::format("{:.0f} % of the step {}; {}", 100 * share, cause.words, help(cause, first, run));
  return begin + fmt::format(
                     "{:.0f} % of the step is computing; only faster devices, or threads that no other device "
                     "uses, would help",
                     100 * time.compute_s / run.seconds_per_epoch());
}

}  // namespace dptrain::train
