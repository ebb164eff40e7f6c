#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/communicator.h"
#include "nn/named_values.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "parallel/phase_clock.h"
#include "parallel/step_observer.h"

namespace dptrain::parallel {

/// How a store distributes its keys over its places: devices or servers.
enum class Placement {
  balanced,     ///< the largest key first, each to the place that has the least so far
  round_robin,  ///< key number modulo number of places, whatever the sizes
};

/// Returns the place of each key. `elements`: the size of each key.
std::vector<int> place_keys(const std::vector<int64_t>& elements, int places, Placement placement);

/// A name for elements [begin, end) of a model's flat buffers. Both are multiples of 16.
struct StoreKey {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
  int dimensions = 0;  ///< number of dimensions of the parameter
  ops::UpdateFactors factors = {};
};

/// Returns a key for each parameter, in the order of first use, padding included.
std::vector<StoreKey> keys_of(const nn::Model& model);

/// One rank's end of a key-value store (Li et al., "Scaling distributed machine learning with the parameter server",
/// 2014; MXNet's KVStore). The store holds weights by key. It sums what all ranks push, updates its weights from the
/// sums with its own optimizer state, and gives the weights to every rank that pulls them. Ranks know the keys, but not
/// where they are stored.
///
/// Every rank makes the same calls in the same order. In a step each key is pushed once, all sums are waited for, all
/// keys are updated together (a norm to clip by covers all keys), and each key is pulled. Sums follow the order of
/// Communicator, so results are bit-identical for all kinds of stores and placements.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Gives the store its keys and the weights of rank 0's model. Called once. Blocks.
  void init(std::vector<StoreKey> keys);
  const std::vector<StoreKey>& keys() const { return keys_; }

  /// Called before a step's first push. Tells the store all that its update needs, except what depends on gradients.
  /// Doesn't block.
  virtual void begin_step(const optim::OptimizerStep&) {}
  /// Gives the store this rank's gradient of a key, which is complete. The sum is computed while the ranks go on. The
  /// gradient must not be touched until `wait_for_pushes` has returned.
  void push(const std::string& key);
  /// Blocks until every key is summed. All keys must have been pushed.
  void wait_for_pushes();
  /// Updates the weights of all keys in the store. In fp16 (`loss_scale` not null) nothing changes if a gradient
  /// overflows. Blocks.
  virtual void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) = 0;
  /// Copies a key's weights from the store to this rank's model. Doesn't renew copies in half precision. Blocks.
  void pull(const std::string& key) { fetch(index_of(key)); }

  /// For stores whose updates don't wait for all ranks: waits until all ranks have called it, then copies the store's
  /// current weights to this rank's model. Called between steps by all ranks. Blocks.
  virtual void settle() {}

  /// Returns the optimizer's state by parameter, named as a replica would name it, on rank 0; nothing on other ranks.
  /// All ranks call it.
  virtual std::vector<nn::NamedValues> gather_state() = 0;
  /// Takes the weights that rank 0's model has now, and `state` unless it is empty. All ranks call it.
  virtual void restore(const std::vector<nn::NamedValues>& state) = 0;

  /// Bytes held, by place.
  virtual std::vector<int64_t> held_bytes() const = 0;
  /// What this rank has sent and fetched without its communicator, which has counts of its own.
  virtual CommCounts counts() const { return {}; }

 protected:
  virtual void take_in() = 0;  ///< called once the keys are known
  virtual std::unique_ptr<CommWork> start_sum(size_t key) = 0;
  virtual void fetch(size_t key) = 0;

 private:
  size_t index_of(const std::string& key) const;

  std::vector<StoreKey> keys_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::unique_ptr<CommWork>> pushed_;  ///< by key
};

/// What a rank's end of a store is made from. All of it outlives the end.
struct StoreContext {
  nn::Model& model;
  Communicator& communicator;
  PhaseClock& clock;
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};
  StepObserver* observer = nullptr;
};

}  // namespace dptrain::parallel
