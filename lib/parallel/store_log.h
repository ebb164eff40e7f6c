#pragma once

#include <vector>

#include "comm/meta_communicator.h"
#include "device/device.h"

namespace dptrain::parallel {

/// Logs when a rank of a planned run pushes keys to a store on servers and pulls them. The entries are messages of its
/// process, among the rank's operators and calls; `LoggedCall::key` distinguishes them from messages between ranks.
class StoreLog {
 public:
  /// `device`: the rank's device, which logs its operators. `device` and `calls` must outlive this object. `first`:
  /// whether this rank is the one in its process that waits for sends and pulls weights.
  StoreLog(const Device& device, CallLog& calls, bool first);

  /// `sent_bytes`: sent by this rank, to servers or to the rank that sends for it.
  void push(size_t key, const CommBuffer& gradient, int64_t sent_bytes);
  /// Logs a wait until everything that was pushed has been sent.
  void wait_until_sent();
  /// Logs a wait for a key's weights.
  void wait_for_weights(size_t key);

 private:
  void begin(LoggedCall call, std::vector<size_t>& places);
  void await(size_t place);

  const OperatorLog& operators_;
  CallLog& calls_;
  const bool first_;
  std::vector<size_t> pushes_;  ///< by key: index of its entry in this step's log
  std::vector<size_t> pulls_;
};

}  // namespace dptrain::parallel
