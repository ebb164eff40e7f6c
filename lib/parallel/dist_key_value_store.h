#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "parallel/key_value_store.h"
#include "parallel/served_store.h"
#include "parallel/store_client.h"
#include "parallel/store_log.h"

namespace dptrain::parallel {

/// How the ranks of a process reach a store on servers. All of it outlives the ranks' stores.
struct DistStoreContext {
  std::shared_ptr<StoreClient> client;  ///< the process's client
  Communicator& process;                ///< over the ranks of this process only, in their devices' memory
  /// Over the ranks of this rank's subtree, if GPUs add up what they push among themselves. Null: added up in host
  /// memory.
  Communicator* subtree = nullptr;
  CallLog* logged = nullptr;  ///< where a planned rank logs its pushes and pulls; null: not logged
};

/// A store on servers in the processes of a job. The process adds up what its ranks push and sends the sums to the
/// servers. The servers update their slices and send the weights back.
class DistKeyValueStore final : public KeyValueStore {
 public:
  DistKeyValueStore(const StoreContext& context, const DistStoreContext& dist);

  void begin_step(const optim::OptimizerStep& step) override;
  void settle() override;
  void update(const optim::OptimizerStep& step, optim::LossScale* loss_scale) override;
  std::vector<nn::NamedValues> gather_state() override;
  void restore(const std::vector<nn::NamedValues>& state) override;
  /// Bytes held, by server.
  std::vector<int64_t> held_bytes() const override;
  CommCounts counts() const override;
  ServedStore served() const;

 private:
  void take_in() override;
  std::unique_ptr<CommWork> start_sum(size_t key) override;
  void fetch(size_t key) override;
  /// Shows the summed gradients to the observer.
  void show_sums();
  std::vector<nn::NamedValues> read_state();
  bool is_first_of_process() const { return dist_.process.rank() == 0; }
  Tensor window(const Tensor& flat, size_t key) const {
    return flat.window(keys()[key].begin, {keys()[key].end - keys()[key].begin}, Layout::plain);
  }

  StoreContext context_;
  DistStoreContext dist_;
  std::vector<std::string> state_names_;
  std::vector<float> on_host_;  ///< gradients of a GPU, copied to the host
  std::optional<StoreLog> log_;
  CommCounts counts_;  ///< what this rank gave to its process
};

}  // namespace dptrain::parallel
