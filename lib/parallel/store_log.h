#pragma once

#include <vector>

#include "comm/meta_communicator.h"
#include "device/device.h"

namespace dptrain::parallel {

/// Writes down where a rank of a planned training pushes keys to a store on servers, and pulls them, among its
/// operators and calls: as messages of its process, which `LoggedCall::key` tells from those between ranks.
class StoreLog {
 public:
  /// `device`: the rank's own, which logs its operators; it and `calls` outlive this. `first`: whether the rank is the
  /// one of its process that waits for what was sent, and pulls.
  StoreLog(const Device& device, CallLog& calls, bool first);

  /// `sent_bytes`: by this rank, to servers or to the rank that sends for it.
  void push(size_t key, const CommBuffer& gradient, int64_t sent_bytes);
  /// All that was pushed is waited for, until it has been sent.
  void wait_until_sent();
  /// The key's weights are waited for.
  void wait_for_weights(size_t key);

 private:
  void begin(LoggedCall call, std::vector<size_t>& places);
  void await(size_t place);

  const OperatorLog& operators_;
  CallLog& calls_;
  const bool first_;
  std::vector<size_t> pushes_;  ///< by key: where it is in the log of this step
  std::vector<size_t> pulls_;
};

}  // namespace dptrain::parallel
