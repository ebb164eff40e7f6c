#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parallel/key_value_store.h"
#include "parallel/served_store.h"
#include "parallel/store_client.h"
#include "parallel/store_log.h"

namespace dptrain::parallel {

/// How the ranks of a process reach a store on servers; all of it outlives its ends.
struct DistStoreContext {
  std::shared_ptr<StoreClient> client;  ///< of the process
  Communicator& process;                ///< the ranks of the process alone, over their devices' memory
  /// Where GPUs add up among themselves what is pushed: the ranks of this one's subtree. Null: in host memory.
  Communicator* subtree = nullptr;
  CallLog* logged = nullptr;  ///< where a planned rank's pushes and pulls are written down
};

/// A store on servers of a job's processes: what the ranks of a process push is added up and goes to the servers, which
/// update their slices and give the weights back.
class DistKeyValueStore final : public KeyValueStore {
 public:
  DistKeyValueStore(const StoreContext& context, const DistStoreContext& dist);

  void begin_step(const optim::OptimizerStep& step) override;
  void settle() override;
  void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) override;
  std::vector<nn::NamedValues> gather_state() override;
  void restore(const std::vector<nn::NamedValues>& state) override;
  /// By server.
  std::vector<int64_t> held_bytes() const override;
  CommCounts counts() const override;
  ServedStore served() const;

 private:
  void take_in() override;
  std::unique_ptr<CommWork> start_sum(size_t key) override;
  void fetch(size_t key) override;
  /// To the observer.
  void show_sums();
  std::vector<nn::NamedValues> read_state();
  bool is_first_of_process() const { return dist_.process.rank() == 0; }
  Tensor window(const Tensor& flat, size_t key) const {
    return flat.window(keys()[key].begin, {keys()[key].end - keys()[key].begin}, Layout::plain);
  }

  StoreContext context_;
  DistStoreContext dist_;
  std::vector<std::string> state_names_;
  std::vector<float> on_host_;  ///< a GPU's gradients
  std::optional<StoreLog> log_;
  CommCounts counts_;  ///< of what this rank gave to its process
};

}  // namespace dptrain::parallel
