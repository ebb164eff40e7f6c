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

/// How the keys of a store are dealt out over its places.
enum class Placement {
  balanced,     ///< the largest key first, each onto the place that has the least so far
  round_robin,  ///< key number modulo places, whatever the sizes
};

/// The place of each key, of keys with these many elements.
std::vector<int> place_keys(const std::vector<int64_t>& elements, int places, Placement placement);

/// A name for elements [begin, end) of a model's flat buffers, both multiples of 16.
struct StoreKey {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
  int dimensions = 0;  ///< of the parameter
  ops::UpdateFactors factors = {};
};

/// A key for each parameter, in the order of first use, padding included.
std::vector<StoreKey> keys_of(const nn::Model& model);

/// One rank's end of a key-value store (Li et al., "Scaling distributed machine learning with the parameter server",
/// 2014; MXNet's KVStore): a place for weights, by key, that sums what all ranks push, updates its weights from the
/// sums with optimizer state of its own, and gives them to whoever pulls. Ranks know keys, not where these live.
///
/// Every rank makes the same calls in the same order. In a step each key is pushed once, all are waited for, updated
/// together (a norm to clip by is that of all of them), and pulled. Sums have the order of Communicator's, so that the
/// kind of store and its placement change no bit.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// Gives the store its keys, with the weights that rank 0's model has. Once. Blocks.
  void init(std::vector<StoreKey> keys);
  const std::vector<StoreKey>& keys() const { return keys_; }

  /// Before the first push of a step: what its update goes by, but for what gradients will show. Doesn't block.
  virtual void begin_step(const optim::OptimizerStep&) {}
  /// Gives the store this rank's gradient of a key, which is complete, and goes on: the sum is computed while ranks do
  /// other things. The gradient is to be left alone until `wait_for_pushes`.
  void push(const std::string& key);
  /// Blocks until every key is summed. All have been pushed.
  void wait_for_pushes();
  /// Updates the weights of all keys, on the store's side. In fp16 (`loss_scale` not null) nothing changes where a
  /// gradient overflows. Blocks.
  virtual void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) = 0;
  /// Makes a key's weights those of the store in this rank's model; copies in half precision are left. Blocks.
  void pull(const std::string& key) { fetch(index_of(key)); }

  /// Where updates don't wait for all ranks: makes the store's weights as they are now those of this rank's model, once
  /// all have come. Between steps; all ranks call it. Blocks.
  virtual void settle() {}

  /// The optimizer's state by parameter, as a replica would name it: on rank 0, nothing elsewhere. All ranks call it.
  virtual std::vector<nn::NamedValues> gather_state() = 0;
  /// Takes such a state where it isn't empty, and the weights that rank 0's model has now. All ranks call it.
  virtual void restore(const std::vector<nn::NamedValues>& state) = 0;

  /// Bytes of what it holds, by place.
  virtual std::vector<int64_t> held_bytes() const = 0;
  /// What this rank sent and fetched beside its communicator, which counts for itself.
  virtual CommCounts counts() const { return {}; }

 protected:
  virtual void take_in() = 0;  ///< the keys are known
  virtual std::unique_ptr<CommWork> start_sum(size_t key) = 0;
  virtual void fetch(size_t key) = 0;

 private:
  size_t index_of(const std::string& key) const;

  std::vector<StoreKey> keys_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<std::unique_ptr<CommWork>> pushed_;  ///< by key
};

/// What an end of a store is made from; all of it outlives the end.
struct StoreContext {
  nn::Model& model;
  Communicator& communicator;
  PhaseClock& clock;
  optim::OptimizerSpec optimizer;
  std::optional<double> clip_norm = {};
  StepObserver* observer = nullptr;
};

}  // namespace dptrain::parallel
