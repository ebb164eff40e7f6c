#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/process_exchange.h"

namespace dptrain {

/// Lets the processes of a job agree and tell each other things, besides what their ranks exchange. One thread of each
/// process uses it, and all of them make the same calls. Every call blocks for `timeout_s` at most, and throws as a
/// communicator does.
class ProcessGroup {
 public:
  /// A group of all processes of the job.
  ProcessGroup(ProcessExchange& exchange, double timeout_s);
  /// A group of `processes`, given by their numbers in the job; the first is the main one. All other processes call
  /// `next_group` instead.
  ProcessGroup(ProcessExchange& exchange, const std::vector<int>& processes, double timeout_s);

  int process() const { return communicator_->rank(); }
  int processes() const { return communicator_->size(); }
  /// Whether this is the process that writes files and prints.
  bool is_main() const { return process() == 0; }

  /// All processes' values, by process.
  std::vector<int64_t> values(int64_t own);
  /// The largest of all processes' values.
  int largest(int value);
  /// All processes' texts, by process, on the main process. Returns nothing elsewhere.
  std::vector<std::string> gather(const std::string& own);
  /// All processes' texts, by process, on all of them.
  std::vector<std::string> gather_everywhere(const std::string& own);
  /// Fails the job with `failure`, unless it has failed already. For a process that can't wait to be asked. Doesn't
  /// block.
  void fail(const JobFailure& failure) { exchange_.fail(failure); }
  /// The main process's text.
  std::string from_main(const std::string& own);

 private:
  ProcessExchange& exchange_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace dptrain
