#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "comm/world_shape.h"
#include "parallel/staleness.h"
#include "parallel/store_command.h"
#include "parallel/store_slices.h"

namespace dptrain::parallel {

struct StoreClientOptions {
  std::vector<StoreKey> keys;
  std::vector<StoreSlice> slices;  ///< of all servers, in the order of keys
  /// The whole subtrees of the tree over all ranks that this worker has, its ranks numbered from 0.
  std::vector<RankRun> subtrees;
  /// Whether every rank pushes, and is added up here; otherwise the first one of each subtree pushes its sum.
  bool adds_ranks = true;
  bool ends_with_apply = false;
};

/// A worker process's end of a key-value store over processes, shared by its ranks: adds up what they push, sends that
/// to the servers while they compute on, and has the weights that come back.
class StoreClient {
 public:
  /// `links`: by server. They outlive it.
  StoreClient(const StoreClientOptions& options, std::vector<Communicator*> links);
  /// Tells the servers that nothing more comes; within a step it ends the links.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const StoreClientOptions& options() const { return options_; }

  /// Before the first push of a step. Every rank may call it.
  void begin_step(const StoreCommand& command);
  /// A rank's gradient of a key is complete: `gradients` is the begin of all of them, in host memory, and stays as it
  /// is until `end_step` has returned. The rank that pushes a key last adds it up and starts sending. Keys come in the
  /// same order from all ranks, the last one first. Doesn't wait for anybody.
  void push(int rank, size_t key, const float* gradients);
  // Of one rank alone:
  /// Once all ranks have pushed everything: blocks until all of it has been sent. `command`: how the step is applied,
  /// where the store waits for that.
  void end_step(const StoreCommand& command);
  /// What was sent of a key in this step, where all ranks that there are make one subtree of this worker's: the sum
  /// over them, the begin of all.
  const float* whole_sum(size_t key) const;
  /// Blocks until the new weights of a key are there; the begin of all, in host memory. The last key first.
  const float* pulled(size_t key);

  // Between steps, of one rank alone; they block:
  /// Asks for the weights as they are now: `pulled` gives them.
  void pull();
  /// How stale pushes were since the last time, on all servers. Of one worker alone, and so what follows.
  Staleness take_staleness();
  /// Makes these the store's weights, and `states` its optimizer's state, where there are any: whole flat buffers.
  void write(const float* weights, const std::vector<const float*>& states);
  /// Reads the optimizer's state into these.
  void read(const std::vector<float*>& states);

  /// What has been sent to servers.
  CommCounts counts() const;

 private:
  size_t pushes_of_key() const;
  void send(size_t key);
  /// What is sent of a subtree: the begin of all gradients.
  const float* sum_of(size_t subtree, size_t key);
  void command_all(StoreCommand command);

  const StoreClientOptions options_;
  const std::vector<Communicator*> links_;
  std::vector<std::vector<StoreSlice>> slices_;  ///< by key
  std::vector<float> weights_;
  std::vector<std::vector<float>> sums_;  ///< of each subtree of more than one rank

  mutable std::mutex mutex_;
  StoreCommand step_;
  bool begun_ = false;                  ///< the servers know of this step
  std::vector<StoreCommand> commands_;  ///< by server, on their way
  struct Pushed {
    std::vector<const float*> gradients;  ///< by rank
    size_t pushes = 0;
  };
  std::vector<Pushed> pushed_;  ///< by key
  size_t next_;                 ///< the key that is sent next
  std::vector<std::unique_ptr<CommWork>> going_;
  std::vector<std::vector<std::unique_ptr<CommWork>>> coming_;  ///< by key
};

}  // namespace dptrain::parallel
