#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "comm/process_handle.h"

namespace dptrain {

/// The processes of a job that a launcher has started on this host, as /proc shows them. They are seen from their start
/// on, long before they have joined the job. Processes of another user, and anything else that a launcher runs, are not
/// seen.
class LaunchedSiblings {
 public:
  /// `here`: how many processes there should be; 0: unknown.
  LaunchedSiblings(int64_t launcher, int here);

  /// Looks for processes that have started since the last look.
  void look();
  struct Process {
    int number = 0;  ///< in the job
    int64_t pid = 0;
  };
  /// The processes that were seen and have ended.
  std::vector<Process> ended() const;
  /// Whether some processes are neither in `others` nor were ever seen, and won't come: they ended before anybody
  /// looked.
  bool lacks_some(const std::set<int>& others) const;

 private:
  struct Sibling {
    int64_t pid = 0;
    ProcessHandle process;
  };
  const int64_t launcher_;
  const int here_;
  Clock::time_point latest_ = Clock::now();  ///< when a new one, or one about to start, was last seen
  std::map<int, Sibling> seen_;
};

}  // namespace dptrain
