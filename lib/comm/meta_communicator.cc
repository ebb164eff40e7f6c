#include "comm/meta_communicator.h"

#include "base/check.h"
#include "comm/call_communicator.h"
#include "device/operator_log.h"

namespace dptrain {
namespace {

class MetaWork final : public CommWork {
 public:
  MetaWork(const OperatorLog& operators, CallLog& calls)
      : operators_(operators), calls_(calls), number_(calls.size() - 1) {}
  void wait() override {
    // Logs are emptied between steps, which no call outlasts.
    if (number_ < calls_.size()) calls_[number_].awaited_after = operators_.costs().size();
  }

 private:
  const OperatorLog& operators_;
  CallLog& calls_;
  size_t number_;
};

class MetaCommunicator final : public CallCommunicator {
 public:
  MetaCommunicator(const Device& device, int rank, const LoggedWorld& world, CallLog& calls)
      : operators_(*device.operator_log()), rank_(rank), world_(world), calls_(calls) {}

  int rank() const override { return rank_; }
  int size() const override { return world_.ranks; }

  /// Nobody waits.
  void abort(const std::string&, ExitCode) override {}

  CommCounts counts() const override { return counts_; }
  bool can_be_recorded() const override { return world_.can_be_recorded; }
  void count_replay(const CommCounts& replayed) override {
    counts_.bytes += replayed.bytes;
    counts_.collectives += replayed.collectives;
  }

 private:
  std::unique_ptr<CommWork> start(const CommCall& call) override {
    check_call(call, rank_, size());
    const bool is_collective =
        call.kind != CommKind::send && call.kind != CommKind::receive && call.kind != CommKind::barrier;
    const size_t given = operators_.costs().size();
    calls_.push_back({.call = call,
                      .ranks = size(),
                      .over_host = world_.over_host,
                      .sent_bytes = sent_bytes(call, rank_, size()),
                      .started_after = given,
                      .awaited_after = given});
    counts_.bytes += calls_.back().sent_bytes;
    counts_.collectives += is_collective ? 1 : 0;
    return std::make_unique<MetaWork>(operators_, calls_);
  }

  const OperatorLog& operators_;
  const int rank_;
  const LoggedWorld world_;
  CallLog& calls_;
  CommCounts counts_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_meta_communicators(const std::vector<Device*>& devices,
                                                                   const LoggedWorld& world,
                                                                   const std::vector<int>& log_numbers) {
  DPTRAIN_CHECK(devices.size() == log_numbers.size() && static_cast<int>(devices.size()) <= world.ranks,
                "{} devices and {} logs in a world of {}", devices.size(), log_numbers.size(), world.ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t i = 0; i < devices.size(); ++i) {
    CallLog& calls = world.calls->at(static_cast<size_t>(log_numbers[i]));
    communicators.push_back(std::make_unique<MetaCommunicator>(*devices[i], static_cast<int>(i), world, calls));
  }
  return communicators;
}

}  // namespace dptrain
