#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "comm/process_handle.h"

namespace dptrain {

/// The processes of a job that a launcher has started on this host, as /proc shows them: from the moment on that they
/// begin, long before they have joined the job. Those of another user, and what a launcher runs besides, aren't known.
class LaunchedSiblings {
 public:
  /// `here`: how many there are to be; 0: not known.
  LaunchedSiblings(int64_t launcher, int here);

  /// Looks for those that have come since the last look.
  void look();
  struct Process {
    int number = 0;  ///< in the job
    int64_t pid = 0;
  };
  /// Those that have been there, and have ended.
  std::vector<Process> ended() const;
  /// Whether some aren't among these and those that have been there, and will not come: they have ended before anybody
  /// looked.
  bool lacks_some(const std::set<int>& others) const;

 private:
  struct Sibling {
    int64_t pid = 0;
    ProcessHandle process;
  };
  const int64_t launcher_;
  const int here_;
  Clock::time_point latest_ = Clock::now();  ///< when one was seen that wasn't before, or on its way
  std::map<int, Sibling> seen_;
};

}  // namespace dptrain
