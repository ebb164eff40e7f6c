#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "parallel/served_store.h"
#include "plan/links_file.h"
#include "plan/store_places.h"

namespace dptrain::plan {

/// What the times of a store on servers depend on.
struct StoreFigures {
  const parallel::ServedStore& store;
  const StorePlaces& places;
  std::optional<HostLinks> hosts = {};  ///< nothing: all is in one process
  /// Seconds in which a server, or a worker that adds up, reads or writes so many bytes.
  std::function<double(double bytes)> memory_s;
};

/// Plays the servers of a key-value store, and the links that they share with the workers. The caller plays one worker,
/// which stands for all: all workers push a key at the same time. A message between hosts occupies the links of both,
/// one message after the other. Within a process or a host the data is copied. A server adds up and updates one slice
/// at a time, once all workers have pushed it.
class StoreTimes {
 public:
  explicit StoreTimes(const StoreFigures& figures);

  /// Makes all workers send a key's sums from `now` on. Returns when the first worker has sent its own.
  double push(size_t key, double now);
  /// When the next event happens, pushes aside; nothing while the servers wait for pushes.
  std::optional<double> next() const;
  /// Plays the next event.
  void go_on();
  /// When the first worker has this step's weights of a key; nothing while that isn't known.
  std::optional<double> pulled(size_t key) const;
  /// Seconds in which the first worker's process adds up what `inputs` ranks push for a key.
  double adding_s(size_t key, int64_t inputs) const;

  /// Seconds of work that a worker's cores had for the store since the last call, on average over the workers' hosts.
  double take_work_s();
  /// Seconds of work: of the busiest server, and of all messages divided by the number of workers.
  double busiest_server_s() const;
  double comm_s() const { return comm_s_; }

 private:
  struct Host {
    double out_free_at = 0;
    double in_free_at = 0;
    double cores_free_at = 0;  ///< the cores that send and receive
  };
  struct Server {
    double free_at = 0;
    double busy_s = 0;
  };
  enum class Stage { arrived, updated };
  struct Event {
    double time = 0;
    size_t number = 0;  ///< of two simultaneous events, the one that was known first comes first
    size_t slice = 0;
    Stage stage = Stage::arrived;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  double bytes_of(size_t slice) const;
  Server& server_of(size_t slice) { return servers_[static_cast<size_t>(figures_.store.slices[slice].server)]; }
  int host_of(size_t slice) const;
  void expect(double time, size_t slice, Stage stage);
  /// Sends `messages` messages with `bytes` in all; returns when they have arrived.
  double send(int from, int to, double bytes, double messages, double ready);
  /// Computes on the server's thread, from `ready` on. Returns when it is done.
  double compute(size_t slice, double bytes, double ready);
  double update_bytes(size_t slice) const;
  void add_up(size_t slice, double now);
  void update_all(double now);
  void give_back(size_t slice, double now);
  void work(int host, double seconds);

  const StoreFigures figures_;
  std::vector<std::vector<size_t>> slices_of_key_;
  double all_sums_ = 0;  ///< the number of sums that a server adds up for a slice
  std::vector<Host> hosts_;
  std::vector<Server> servers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  size_t events_known_ = 0;
  size_t summed_ = 0;  ///< number of slices
  struct Pull {
    size_t missing = 0;  ///< number of slices
    double end = 0;
  };
  std::vector<Pull> pulls_;  ///< by key
  double work_s_ = 0;
  double comm_s_ = 0;
};

}  // namespace dptrain::plan
