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
  std::vector<StoreSlice> slices;        ///< of all servers, in the order of the keys
  std::vector<std::vector<int>> widths;  ///< by worker: the number of ranks in each sum that it pushes of a key
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};  ///< norm that all gradients together are clipped to
  /// Each worker's gradients are a separate update, made as soon as they arrive. The learning rate is a step's rate
  /// divided by the number of workers, and the gradients are multiplied by that number.
  bool is_asynchronous = false;
  /// Workers say at the end of a step how it is applied.
  bool waits_for_apply = false;
  double timeout_s = 300;               ///< limit of the wait for a worker that others wait for
  ProcessActivity* activity = nullptr;  ///< records what its threads do; must outlive the server
};

/// One server of a key-value store. It has host memory with the weights of its slices and their optimizer state, and
/// one thread per worker.
///
/// In a step, each worker pushes its sums of every slice. Once all workers have, the sums are added in the order of the
/// tree over all ranks, the slice is updated, and its weights go back to the workers. An asynchronous server updates
/// and returns a slice for each worker separately.
class StoreServer {
 public:
  /// Accepts commands from now on.
  StoreServer(const StoreServerOptions& options, ServerLinks links);
  /// Blocks until every worker has ended, or the links have failed.
  ~StoreServer() { threads_.finish(); }
  /// Blocks as the destructor does. Throws the error that ended one of its threads, with exit code 75 if the links have
  /// failed.
  void wait();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  /// A slice that this server holds.
  struct Own {
    size_t index = 0;            ///< among the slices of all servers
    int64_t begin = 0;           ///< in the server's flat buffers
    int64_t size = 0;            ///< elements
    std::vector<bool> has_come;  ///< by worker: whether its sums of this step have arrived
    int64_t updates = 0;         ///< updates so far
  };
  struct Worker {
    size_t number = 0;
    Communicator* link = nullptr;
    std::vector<int> widths;
    std::vector<Tensor> sums;  ///< flat, by subtree of the worker
    StoreCommand command;
    int64_t pulled_at = 0;                     ///< number of updates that the worker's weights contain
    ProcessActivity::Thread* place = nullptr;  ///< its thread's entry
  };

  void serve(size_t worker) noexcept;
  bool serve_command(Worker& worker);
  void take_step(Worker& worker);
  /// Blocks until the slice has been summed. It is then also updated, unless the update needs more than this slice.
  void meet(Own& slice, const Worker& worker);
  /// Blocks until all workers have called it; the last one updates all slices.
  void apply(const Worker& worker);
  /// Blocks until the other workers have come and `count` has changed. `has_come`: which workers have come. Throws an
  /// error with exit code 75 that names the missing workers if this takes longer than `timeout_s`.
  void wait_for_workers(std::unique_lock<std::mutex>& lock, const std::vector<bool>& has_come, const int64_t& count);
  /// Updates the slice with what this worker has pushed. Writes the new weights over the worker's gradients.
  void update_alone(Own& slice, Worker& worker);
  void sum(const Own& slice);
  void update(const Own& slice, const optim::OptimizerStep& step);
  Tensor clip_factor(const Tensor& factor);
  /// Whether a slice is updated and returned as soon as it is summed.
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
  std::vector<bool> applying_;  ///< by worker: whether it has sent everything of this step
  int64_t applied_ = 0;         ///< steps applied
  int64_t updates_ = 0;         ///< updates by single workers, of all slices
  Staleness staleness_;
  std::optional<Error> failure_;
  WorkerThreads threads_;  ///< ends first
};

/// Opens a server in a process of its own. Blocks until the first worker has told it the slices.
std::unique_ptr<StoreServer> open_store_server(ServerLinks links, StoreServerOptions options);
/// The worker's side of open_store_server: sends the slices to the servers at the other ends of `to_servers`.
void tell_slices(const std::vector<std::unique_ptr<Communicator>>& to_servers, std::vector<StoreSlice> slices);

}  // namespace dptrain::parallel
