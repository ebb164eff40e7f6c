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

/// The work of one process for a call between processes.
struct Exchanged {
  double bytes = 0;     ///< added up, sent and received
  double messages = 0;  ///< sent and received
};

/// The time that an operation of ranks takes.
struct CallCost {
  double seconds = 0;
  double work_s = 0;  ///< the part of it in which a process's cores are busy
};

/// Times of the calls of a world, as dptrain carries them out.
class CallTimes {
 public:
  struct Options {
    WorldShape world;
    std::vector<DeviceId> devices;  ///< of the first process
    const DeviceFigures& figures;
    std::optional<LinkSpec> links = {};  ///< simulated links for calls within one process, as in training
    std::optional<HostLinks> hosts = {};
    /// GPUs of several hosts exchange through NCCL; if false, through host memory.
    bool over_nccl = false;
    /// All sums over NCCL are made in the tree's order.
    bool deterministic = false;
  };
  explicit CallTimes(const Options& options);

  /// The cost of an operation if nobody else uses its links. `calls`: for a collective the calls of its planned ranks,
  /// in order; for a message those of one or both of its ends.
  CallCost cost(std::span<const LoggedCall* const> calls);
  /// Numbers of the links that a call occupies; empty if it occupies all of them.
  std::vector<int> links_of(const LoggedCall& call) const;
  /// Seconds of a call of lower priority that still go first when this call interrupts it, because they are already on
  /// their way.
  double on_its_way_s(const LoggedCall& call) const;
  /// What the first process exchanges for a call; nothing for a message or for a call within one process.
  Exchanged exchanged(const LoggedCall& call);
  /// Sets how fast the hosts' memory and cores are.
  void set_exchange(const ExchangeFigures& figures);
  /// The process that a rank belongs to.
  int process_of(int rank) const { return options_.world.process_of(rank); }
  /// The links between the hosts, if there are several.
  const std::optional<HostLinks>& hosts() const { return options_.hosts; }

 private:
  double within_process(std::span<const LoggedCall* const> calls) const;
  /// Whether a communicator makes the call through NCCL between processes: see make_nccl_world_communicators.
  bool is_of_nccl(const LoggedCall& call) const;
  double over_nccl(const LoggedCall& call) const;
  double on_simulated_links(std::span<const LoggedCall* const> calls) const;
  CallCost between_processes(const LoggedCall& call);
  CallCost message_between_processes(const LoggedCall& call) const;
  CallCost cost_of(const ExchangeStage& stage) const;
  /// The part that process `process` of the call's group has in the exchange.
  ExchangePlan exchange_of(const LoggedCall& call, const WorldShape& shape, int process) const;
  /// The shape of the group that makes the call.
  WorldShape shape_of(const LoggedCall& call) const;

  Options options_;
  std::optional<SimulatedLinks> simulated_;
  std::shared_ptr<StagingPool> pool_;
  /// By group, kind, elements, type and the process whose part was planned.
  std::map<std::tuple<int, CommKind, int64_t, DType, int>, CallCost> planned_;
};

}  // namespace dptrain::plan
