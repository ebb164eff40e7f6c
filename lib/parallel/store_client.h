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
  std::vector<StoreSlice> slices;  ///< of all servers, in the order of the keys
  /// The whole subtrees, in the tree over all ranks, that are formed by this worker's ranks. These ranks are numbered
  /// from 0.
  std::vector<RankRun> subtrees;
  /// If true, every rank pushes, and their gradients are added up here. If false, the first rank of each subtree pushes
  /// the subtree's sum.
  bool adds_ranks = true;
  bool ends_with_apply = false;
};

/// A worker process's end of a key-value store over processes, shared by its ranks. It adds up what the ranks push and
/// sends it to the servers while the ranks compute. It receives the new weights.
class StoreClient {
 public:
  /// `links`: by server. They must outlive the client.
  StoreClient(const StoreClientOptions& options, std::vector<Communicator*> links);
  /// Tells the servers that nothing more comes. Within a step it aborts the links.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  const StoreClientOptions& options() const { return options_; }

  /// Called before the first push of a step; every rank may call it.
  void begin_step(const StoreCommand& command);
  /// Pushes a rank's complete gradient of a key; doesn't block. `gradients`: the beginning of all gradients, in host
  /// memory, unchanged until `end_step` has returned. The rank that pushes a key last adds it up and starts sending.
  /// All ranks push keys in the same order, the last key first.
  void push(int rank, size_t key, const float* gradients);
  // Only one rank calls the following members:
  /// Called once all ranks have pushed everything. Blocks until all of it has been sent. `command`: how the step is
  /// applied, if the store waits for that.
  void end_step(const StoreCommand& command);
  /// Returns the sum over all ranks that was sent for a key in this step, if all ranks form one subtree of this worker.
  /// The result is the beginning of the buffer of all keys.
  const float* whole_sum(size_t key) const;
  /// Blocks until the new weights of a key have arrived. Returns the beginning of the weights of all keys, in host
  /// memory. Keys are asked for from the last to the first.
  const float* pulled(size_t key);

  // Only one rank calls the following members, between steps; they block:
  /// Asks for the current weights; `pulled` returns them.
  void pull();
  /// Returns how stale pushes were since the last call, on all servers. Only one worker calls this and the following
  /// members.
  Staleness take_staleness();
  /// Makes these the store's weights, and `states` its optimizer state if it has any. All are whole flat buffers.
  void write(const float* weights, const std::vector<const float*>& states);
  /// Reads the optimizer's state into these buffers.
  void read(const std::vector<float*>& states);

  /// The bytes sent to servers; calls aren't counted.
  CommCounts counts() const;

 private:
  size_t pushes_of_key() const;
  void send(size_t key);
  /// Returns what is sent for a subtree: the beginning of all gradients.
  const float* sum_of(size_t subtree, size_t key);
  void command_all(StoreCommand command);

  const StoreClientOptions options_;
  const std::vector<Communicator*> links_;
  std::vector<std::vector<StoreSlice>> slices_;  ///< by key
  std::vector<float> weights_;
  std::vector<std::vector<float>> sums_;  ///< by subtree of more than one rank

  mutable std::mutex mutex_;
  StoreCommand step_;
  bool begun_ = false;                  ///< the servers have been told of this step
  std::vector<StoreCommand> commands_;  ///< by server, being sent
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
