#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "comm/exchange_plan.h"
#include "comm/link_spec.h"
#include "comm/meta_communicator.h"
#include "comm/simulated_links.h"
#include "comm/staging_pool.h"
#include "comm/world_shape.h"
#include "plan/device_figures.h"
#include "plan/links_file.h"

namespace dptrain::plan {

/// What a process does for a call between processes.
struct Exchanged {
  double bytes = 0;     ///< that it adds up, sends and receives
  double messages = 0;  ///< that it sends and receives
};

/// What an operation of ranks takes.
struct CallCost {
  double seconds = 0;
  double work_s = 0;  ///< of them a process's cores are busy
};

/// What the calls of a world take, as dptrain makes them.
class CallTimes {
 public:
  struct Options {
    WorldShape world;
    std::vector<DeviceId> devices;  ///< of the first process
    const DeviceFigures& figures;
    std::optional<LinkSpec> links = {};  ///< that calls of one process are held to, as in training
    std::optional<HostLinks> hosts = {};
    /// NCCL carries what GPUs of several hosts exchange; otherwise it goes through host memory.
    bool over_nccl = false;
    /// All of their sums are made in the tree's order.
    bool deterministic = false;
  };
  explicit CallTimes(const Options& options);

  /// Of an operation on links that nobody else uses. `calls`: of the ranks that are there, in order; of a message those
  /// of one or both of its ends.
  CallCost cost(std::span<const LoggedCall* const> calls);
  /// Numbers of the links that it takes; none where it takes all.
  std::vector<int> links_of(const LoggedCall& call) const;
  /// What is on its way before it while it goes first.
  double on_its_way_s(const LoggedCall& call) const;
  /// Of the first process; nothing of a call within one, and of a message.
  Exchanged exchanged(const LoggedCall& call);
  /// Sets what the hosts' memory and cores take.
  void set_exchange(const ExchangeFigures& figures);
  /// Of a rank.
  int process_of(int rank) const { return options_.world.process_of(rank); }
  /// What joins the hosts, where there are several.
  const std::optional<HostLinks>& hosts() const { return options_.hosts; }

 private:
  double within_process(std::span<const LoggedCall* const> calls) const;
  /// What a communicator does by NCCL between processes: see make_nccl_world_communicators.
  bool is_of_nccl(const LoggedCall& call) const;
  double over_nccl(const LoggedCall& call) const;
  double on_simulated_links(std::span<const LoggedCall* const> calls) const;
  CallCost between_processes(const LoggedCall& call);
  CallCost message_between_processes(const LoggedCall& call) const;
  CallCost cost_of(const ExchangeStage& stage) const;
  /// As process `process` of the call's group takes part in it.
  ExchangePlan exchange_of(const LoggedCall& call, const WorldShape& shape, int process) const;
  /// Of a group's ranks.
  WorldShape shape_of(const LoggedCall& call) const;

  Options options_;
  std::optional<SimulatedLinks> simulated_;
  std::shared_ptr<StagingPool> pool_;
  /// By group, kind, elements, type, process whose part was planned.
  std::map<std::tuple<int, CommKind, int64_t, DType, int>, CallCost> planned_;
};

}  // namespace dptrain::plan
