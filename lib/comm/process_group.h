#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/process_exchange.h"

namespace dptrain {

/// What the processes of a job agree on and tell each other, beside what their ranks exchange. Used by one thread of
/// each process, all of which make the same calls. Every call blocks, `timeout_s` at most, and throws as a communicator
/// does.
class ProcessGroup {
 public:
  /// Of all processes of the job.
  ProcessGroup(ProcessExchange& exchange, double timeout_s);
  /// Of these, by their numbers in the job, of which the first is the main one. The others call `next_group` instead.
  ProcessGroup(ProcessExchange& exchange, const std::vector<int>& processes, double timeout_s);

  int process() const { return communicator_->rank(); }
  int processes() const { return communicator_->size(); }
  /// The process that writes files and talks.
  bool is_main() const { return process() == 0; }

  /// All processes' values, by process.
  std::vector<int64_t> values(int64_t own);
  /// The largest of them.
  int largest(int value);
  /// What each process has to say, by process: on the main one; nothing elsewhere.
  std::vector<std::string> gather(const std::string& own);
  /// The same on all of them.
  std::vector<std::string> gather_everywhere(const std::string& own);
  /// The job fails with this, unless it has already; for who can't wait to be asked. Doesn't block.
  void fail(const JobFailure& failure) { exchange_.fail(failure); }
  /// What the main process has to say.
  std::string from_main(const std::string& own);

 private:
  ProcessExchange& exchange_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace dptrain
