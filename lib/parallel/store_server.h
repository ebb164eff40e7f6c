#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/process_activity.h"
#include "device/device.h"
#include "optim/parameter_norms.h"
#include "parallel/staleness.h"
#include "parallel/store_command.h"
#include "parallel/store_links.h"
#include "parallel/store_slices.h"
#include "parallel/worker_threads.h"
#include "tensor/tensor.h"

namespace dptrain::parallel {

struct StoreServerOptions {
  std::vector<StoreSlice> slices;        ///< of all servers, in the order of keys
  std::vector<std::vector<int>> widths;  ///< by worker: of how many ranks each sum is that it pushes of a key
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};  ///< of all gradients together
  /// Each worker's gradients are an update of their own, made as soon as they come: at the rate of a step divided by
  /// the workers, times as many as they are.
  bool is_asynchronous = false;
  /// Workers say at the end of a step how it is to be applied.
  bool waits_for_apply = false;
  double timeout_s = 300;               ///< of the wait for a worker that others are waiting for
  ProcessActivity* activity = nullptr;  ///< where its threads say what they are at; outlives the server
};

/// One server of a key-value store: host memory with the weights of its slices and their optimizer state, and a thread
/// for each worker. In a step each worker pushes its sums of every slice; as soon as all have, they are added in the
/// order of the tree over all ranks, the slice is updated, and goes back to the workers. An asynchronous server updates
/// and gives back a slice for each worker alone.
class StoreServer {
 public:
  /// Takes commands from now on.
  StoreServer(const StoreServerOptions& options, ServerLinks links);
  /// Blocks until every worker has ended, or the links have failed.
  ~StoreServer() { threads_.finish(); }
  /// Blocks as the end does. Throws what has ended a thread of it, 75 where the links have failed.
  void wait();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  /// A slice that it has.
  struct Own {
    size_t index = 0;            ///< among those of all servers
    int64_t begin = 0;           ///< in its flat buffers
    int64_t size = 0;            ///< elements
    std::vector<bool> has_come;  ///< by worker: whether its sums of this step are there
    int64_t updates = 0;         ///< that it has seen
  };
  struct Worker {
    size_t number = 0;
    Communicator* link = nullptr;
    std::vector<int> widths;
    std::vector<Tensor> sums;  ///< flat, of each of its subtrees
    StoreCommand command;
    int64_t pulled_at = 0;                     ///< updates that its weights have
    ProcessActivity::Thread* place = nullptr;  ///< of its thread
  };

  void serve(size_t worker) noexcept;
  bool serve_command(Worker& worker);
  void take_step(Worker& worker);
  /// Blocks until the slice has been summed, and updated where nothing else has to be known.
  void meet(Own& slice, const Worker& worker);
  /// Blocks until all workers have come; the last one then updates all slices.
  void apply(const Worker& worker);
  /// Blocks until the others have come, too, and `count` is another one; `has_come`: which of them have. Throws 75,
  /// naming those that haven't, where that takes longer than `timeout_s`.
  void wait_for_workers(std::unique_lock<std::mutex>& lock, const std::vector<bool>& has_come, const int64_t& count);
  /// Updates the slice from what this worker has pushed, and gives it the weights in the same place.
  void update_alone(Own& slice, Worker& worker);
  void sum(const Own& slice);
  void update(const Own& slice, const optim::OptimizerStep& step);
  Tensor clip_factor(const Tensor& factor);
  /// Whether a slice is updated, and given back, as soon as it is summed.
  bool updates_at_once() const {
    return !options_.waits_for_apply && !options_.clip_norm && !options_.optimizer.measures;
  }
  void tell_staleness(Worker& worker);
  void receive_weights(Worker& worker);
  void send_weights(Worker& worker);
  Tensor window(const Tensor& flat, const Own& slice) const {
    return flat.window(slice.begin, {slice.size}, Layout::plain);
  }
  void fail(const Error& failure);

  const StoreServerOptions options_;
  const ServerLinks links_;
  std::unique_ptr<Device> device_;
  Tensor weights_;
  Tensor gradients_;  ///< sums over all ranks
  optim::ParameterNorms norms_;
  Tensor workers_factor_;  ///< f32 [1]: how many workers there are
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<Own> own_;
  std::vector<Worker> workers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> applying_;  ///< by worker: whether it has sent all of this step
  int64_t applied_ = 0;         ///< steps
  int64_t updates_ = 0;         ///< of all slices; by single workers
  Staleness staleness_;
  std::optional<Error> failure_;
  WorkerThreads threads_;  ///< end first
};

/// A server in a process of its own. Blocks until it is told the slices by the first worker.
std::unique_ptr<StoreServer> open_store_server(ServerLinks links, StoreServerOptions options);
/// The worker's side: tells the servers at the other ends of `to_servers`.
void tell_slices(const std::vector<std::unique_ptr<Communicator>>& to_servers, std::vector<StoreSlice> slices);

}  // namespace dptrain::parallel
