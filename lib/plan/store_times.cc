#include "plan/store_times.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace dptrain::plan {
namespace {

/// A copy reads and writes each byte.
constexpr double kCopy = 2;

}  // namespace

StoreTimes::StoreTimes(const StoreFigures& figures)
    : figures_(figures),
      hosts_(static_cast<size_t>(figures.places.hosts())),
      servers_(figures.places.hosts_of_servers.size()) {
  const auto& slices = figures_.store.slices;
  for (size_t i = 0; i < slices.size(); ++i) {
    slices_of_key_.resize(std::max(slices_of_key_.size(), slices[i].key + 1));
    slices_of_key_[slices[i].key].push_back(i);
  }
  for (const auto& of_key : slices_of_key_) pulls_.push_back({.missing = of_key.size()});
  for (int w = 0; w < figures_.places.workers.processes(); ++w)
    all_sums_ += static_cast<double>(figures_.places.sums_of(w));
}

double StoreTimes::bytes_of(size_t slice) const {
  return static_cast<double>(figures_.store.slices[slice].elements() * dtype_bytes(DType::f32));
}

int StoreTimes::host_of(size_t slice) const {
  return figures_.places.hosts_of_servers[static_cast<size_t>(figures_.store.slices[slice].server)];
}

void StoreTimes::expect(double time, size_t slice, Stage stage) {
  events_.push({.time = time, .number = events_known_++, .slice = slice, .stage = stage});
}

void StoreTimes::work(int host, double seconds) {
  if (figures_.places.is_worker(host)) work_s_ += seconds / figures_.places.workers.processes();
}

double StoreTimes::take_work_s() { return std::exchange(work_s_, 0); }

double StoreTimes::busiest_server_s() const { return std::ranges::max(servers_, {}, &Server::busy_s).busy_s; }

double StoreTimes::send(int from, int to, double bytes, double messages, double ready) {
  const double copying = figures_.memory_s(kCopy * bytes);
  if (from == to || !figures_.hosts) {
    work(to, copying);
    comm_s_ += copying / figures_.places.workers.processes();
    return ready + copying;
  }
  const HostLinks& links = *figures_.hosts;
  const double on_link = seconds_at(bytes, links.link.bytes_per_s);
  // Each side makes a copy.
  const double on_cores = copying + messages * links.message_s + seconds_at(bytes, links.message_bytes_per_s);
  Host &a = hosts_[static_cast<size_t>(from)], &b = hosts_[static_cast<size_t>(to)];
  a.out_free_at = std::max(ready, a.out_free_at) + on_link;
  b.in_free_at = std::max(ready, b.in_free_at) + on_link;
  double end = std::max(a.out_free_at, b.in_free_at);
  for (Host* host : {&a, &b}) {
    host->cores_free_at = std::max(ready, host->cores_free_at) + on_cores;
    end = std::max(end, host->cores_free_at);
  }
  work(from, on_cores);
  work(to, on_cores);
  comm_s_ += on_link / figures_.places.workers.processes();
  return end + links.link.latency_s;
}

double StoreTimes::push(size_t key, double now) {
  double sent = now;
  // The client sends them in this order.
  for (const size_t slice : slices_of_key_[key] | std::views::reverse) {
    double arrived = now;
    for (int w = 0; w < figures_.places.workers.processes(); ++w) {
      const auto sums = static_cast<double>(figures_.places.sums_of(w));
      const double end = send(w, host_of(slice), sums * bytes_of(slice), sums, now);
      arrived = std::max(arrived, end);
      if (w == 0) sent = std::max(sent, end);
    }
    expect(arrived, slice, Stage::arrived);
  }
  return sent;
}

std::optional<double> StoreTimes::next() const {
  return events_.empty() ? std::nullopt : std::optional(events_.top().time);
}

void StoreTimes::go_on() {
  const Event event = events_.top();
  events_.pop();
  if (event.stage == Stage::arrived)
    add_up(event.slice, event.time);
  else
    give_back(event.slice, event.time);
}

double StoreTimes::compute(size_t slice, double bytes, double ready) {
  Server& server = server_of(slice);
  const double seconds = figures_.memory_s(bytes);
  server.free_at = std::max(ready, server.free_at) + seconds;
  server.busy_s += seconds;
  work(host_of(slice), seconds);
  return server.free_at;
}

/// The bytes of an update: it reads the sum, and reads and writes weights and state. An optimizer that measures norms
/// reads weights and gradients, or weights and moments, once more.
double StoreTimes::update_bytes(size_t slice) const {
  const int state = figures_.store.state_tensors, measured = figures_.store.measures ? 1 + std::max(1, state) : 0;
  return (1 + 2 * (1 + state) + measured) * bytes_of(slice);
}

void StoreTimes::add_up(size_t slice, double now) {
  const bool at_once = figures_.store.updates_at_once;
  const double sum_bytes = (all_sums_ + 1) * bytes_of(slice);
  const double end = compute(slice, sum_bytes + (at_once ? update_bytes(slice) : 0), now);
  if (at_once) return expect(end, slice, Stage::updated);
  if (++summed_ < figures_.store.slices.size()) return;
  // Servers exchange what they have measured of the gradients.
  update_all(end + (figures_.hosts ? 2 * figures_.hosts->link.latency_s : 0));
}

void StoreTimes::update_all(double now) {
  for (const Server& server : servers_) now = std::max(now, server.free_at);
  for (size_t slice = 0; slice < summed_; ++slice) compute(slice, update_bytes(slice), now);
  // Weights are sent once a server has updated all of its slices.
  for (size_t slice = summed_; slice-- > 0;) expect(server_of(slice).free_at, slice, Stage::updated);
}

void StoreTimes::give_back(size_t slice, double now) {
  Pull& pull = pulls_[figures_.store.slices[slice].key];
  for (int w = 0; w < figures_.places.workers.processes(); ++w)
    pull.end = std::max(pull.end, send(host_of(slice), w, bytes_of(slice), 1, now));
  --pull.missing;
}

std::optional<double> StoreTimes::pulled(size_t key) const {
  const Pull& pull = pulls_[key];
  return pull.missing == 0 ? std::optional(pull.end) : std::nullopt;
}

double StoreTimes::adding_s(size_t key, int64_t inputs) const {
  double bytes = 0;
  for (const size_t slice : slices_of_key_[key]) bytes += bytes_of(slice);
  return figures_.memory_s(static_cast<double>(inputs + 1) * bytes);
}

}  // namespace dptrain::plan
