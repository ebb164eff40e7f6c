// Which process of a job has died, is silent or makes no progress.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/file_progress.h"
#include "comm/job_watchdog_peer.h"

namespace dptrain {
namespace {

/// How long news of a failure may take that a process sent before it ended.
constexpr double kNews_s = 0.2;
/// If the thread that uses the wire doesn't come back for this long, MPI holds it.
constexpr double kHeld_s = 2;

}  // namespace

Clock::time_point JobWatchdog::heard_at(const Peer& peer) const {
  return std::max(peer.heard_at, exchange_.heard_at(peer.process));
}

JobFailure JobWatchdog::failure_of(const Peer& peer, const std::string& what) const {
  const Beat& last = peer.last;
  JobFailure failure{.sentence = fmt::format("{} {}", hooks_.name(peer.process), what),
                     .process = peer.process,
                     .operation = last.operation.data(),
                     .detected_s = seconds_since(heard_at(peer))};
  if (last.number == 0) return failure;
  failure.step = last.step;
  failure.sentence += "; it was last heard from " + describe_progress(last.phase, last.step);
  return failure;
}

std::optional<JobFailure> JobWatchdog::find_lost(std::set<int>& gone) {
  const Peer* first = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->ended_at || peer->goodbye_heard) continue;
    // At the end, processes that don't say goodbye to this one are left to process 0.
    if (parting_ && !peer->is_linked) continue;
    gone.insert(peer->process);
    if (first == nullptr && seconds_since(*peer->ended_at) > kNews_s) first = peer.get();
  }
  // The others have left without this process, because it was stopped for longer than they wait. They have sent news of
  // that, but MPI may not deliver it any more.
  if (first != nullptr && away_from_ < *first->ended_at && *first->ended_at <= away_until_)
    return JobFailure{
        .sentence = fmt::format("{} was silent for {:.1f} s; it was last heard from {}", hooks_.name(process_), away_s_,
                                describe_progress(progress_.phase, progress_.step)),
        .process = process_,
        .step = progress_.step,
        .detected_s = away_s_};
  if (first != nullptr) return failure_of(*first, "has died");
  if (launcher_ended_at_)
    return JobFailure{.sentence = fmt::format("{} has died", launcher_name_),

                      .detected_s = seconds_since(*launcher_ended_at_)};
  return find_silent(gone);
}

std::optional<JobFailure> JobWatchdog::find_silent(std::set<int>& gone) {
  const auto now = Clock::now();
  // If a process of another host has died, MPI may hold the thread that uses the wire. Then nobody is heard of.
  const bool is_held_by_other_host = seconds_between(asked_at_, now) > kHeld_s &&
                                     std::ranges::any_of(peers_, [](const auto& peer) { return !peer->handle; });
  const Peer* longest = nullptr;
  for (const auto& peer : peers_) {
    if (!peer->is_linked || peer->goodbye_heard || (is_held_by_other_host && peer->handle)) continue;
    double left_s = options_.silence_s - seconds_between(heard_at(*peer), now);
    // In case of a doubt, wait for one more heartbeat of each process. Another message doesn't count, as it may have
    // been sent before. (A stop signal is a doubt because a launcher also sends one if a process is lost.)
    if (doubtful_since_ && peer->heard_at < *doubtful_since_)
      left_s = std::min(left_s, options_.answer_s - seconds_between(*doubtful_since_, now));
    // A process that has been silent for nearly as long can't contribute news of this failure.
    if (left_s < 3 * options_.beat_s) gone.insert(peer->process);
    if (left_s <= 0 && (longest == nullptr || heard_at(*peer) < heard_at(*longest))) longest = peer.get();
  }
  if (longest == nullptr) return std::nullopt;
  return failure_of(*longest, fmt::format("was silent for {:.1f} s", seconds_between(heard_at(*longest), now)));
}

JobFailure JobWatchdog::stuck(const std::string& who, double still_s, const std::string& where) const {
  return {
      .sentence = fmt::format("{}{} made no progress for {:.1f} s, {}; if this may take longer, set a larger timeout_s",
                              who.empty() ? "" : who + " of ", hooks_.name(process_), still_s, where),
      .detected_s = still_s};
}

std::optional<JobFailure> JobWatchdog::find_stuck() {
  const double limit_s = progress_.timeout_s;
  if (limit_s <= 0) return std::nullopt;
  if (auto service = find_stuck_service()) return service;
  const auto now = Clock::now();
  // Reading data before the first step and writing a checkpoint may take any time, so their pieces count as progress.
  const auto count = [this] { return exchange_.activity().changes() + file_pieces(); };
  const int64_t changes = count();
  if (std::exchange(changes_, changes) != changes) moved_at_ = now;
  const double still_s = seconds_between(moved_at_, now);
  if (still_s < limit_s) return std::nullopt;
  const ProcessActivity::AtWork at_work = exchange_.activity().at_work();
  // Something has moved meanwhile. A thread that is at work now may have been waiting until just now.
  if (!at_work.any || count() != changes) return std::nullopt;
  // The trainer may be ahead of its ranks, loading the batch of the next step.
  const std::string where = at_work.step > 0 ? describe_progress(JobPhase::step, at_work.step)
                                             : describe_progress(progress_.phase, progress_.step);
  return stuck(fmt::format("{}", fmt::join(at_work.ranks, ", ")), still_s, where);
}

std::optional<JobFailure> JobWatchdog::find_stuck_service() {
  const auto now = Clock::now();
  const std::vector<ProcessActivity::Service> services = exchange_.activity().services();
  // Services are added together and never removed.
  services_.resize(services.size(), {.changes = -1, .moved_at = now});
  for (size_t i = 0; i < services.size(); ++i) {
    SeenService& seen = services_[i];
    if (std::exchange(seen.changes, services[i].changes) != services[i].changes || !services[i].is_at_work)
      seen.moved_at = now;
    const double still_s = seconds_between(seen.moved_at, now);
    if (still_s >= progress_.timeout_s)
      return stuck(services[i].name, still_s, describe_progress(progress_.phase, progress_.step));
  }
  return std::nullopt;
}

}  // namespace dptrain
