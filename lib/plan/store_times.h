#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "parallel/served_store.h"
#include "plan/links_file.h"
#include "plan/store_places.h"

namespace dptrain::plan {

/// What a store on servers is planned by.
struct StoreFigures {
  const parallel::ServedStore& store;
  const StorePlaces& places;
  std::optional<HostLinks> hosts = {};  ///< nothing: all is in one process
  /// Seconds in which a server, or a worker that adds up, goes over so many bytes.
  std::function<double(double bytes)> memory_s;
};

/// Plays the servers of a key-value store and the links that they share with the workers, while somebody else plays one
/// worker, which stands for all: all push a key at the same time. What is sent from a host to another takes the link of
/// either, one message after the other; a server adds up and updates one slice at a time, once all workers have pushed
/// it; what is in the process, or on the host, of its receiver is copied.
class StoreTimes {
 public:
  explicit StoreTimes(const StoreFigures& figures);

  /// All workers send a key's sums from `now` on. Returns when the first worker has sent its own.
  double push(size_t key, double now);
  /// When the next thing happens beside pushes; nothing while the servers wait for these.
  std::optional<double> next() const;
  /// It happens.
  void go_on();
  /// When the first worker has a key's weights of this step; nothing as long as that isn't known.
  std::optional<double> pulled(size_t key) const;
  /// That the first worker's process takes to add up what so many ranks push of a key.
  double adding_s(size_t key, int64_t inputs) const;

  /// What a worker's cores had to do for it, on the average of their hosts, since the last call.
  double take_work_s();
  /// That the servers and the links have been at work for workers: of the busiest server, and of all messages.
  double busiest_server_s() const;
  double comm_s() const { return comm_s_; }

 private:
  struct Host {
    double out_free_at = 0;
    double in_free_at = 0;
    double cores_free_at = 0;  ///< those that send and receive
  };
  struct Server {
    double free_at = 0;
    double busy_s = 0;
  };
  enum class Stage { arrived, updated };
  struct Event {
    double time = 0;
    size_t number = 0;  ///< of two at a time the one that was known first
    size_t slice = 0;
    Stage stage = Stage::arrived;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };

  double bytes_of(size_t slice) const;
  Server& server_of(size_t slice) { return servers_[static_cast<size_t>(figures_.store.slices[slice].server)]; }
  int host_of(size_t slice) const;
  void expect(double time, size_t slice, Stage stage);
  /// `messages` with `bytes` in all; returns when they are there.
  double send(int from, int to, double bytes, double messages, double ready);
  /// On the server's thread, from `ready` on. Returns when it is done.
  double compute(size_t slice, double bytes, double ready);
  double update_bytes(size_t slice) const;
  void add_up(size_t slice, double now);
  void update_all(double now);
  void give_back(size_t slice, double now);
  void work(int host, double seconds);

  const StoreFigures figures_;
  std::vector<std::vector<size_t>> slices_of_key_;
  double all_sums_ = 0;  ///< that a server adds up of a slice
  std::vector<Host> hosts_;
  std::vector<Server> servers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  size_t events_known_ = 0;
  size_t summed_ = 0;  ///< slices
  struct Pull {
    size_t missing = 0;  ///< slices
    double end = 0;
  };
  std::vector<Pull> pulls_;  ///< by key
  double work_s_ = 0;
  double comm_s_ = 0;
};

}  // namespace dptrain::plan
