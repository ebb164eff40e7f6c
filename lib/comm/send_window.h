#pragma once

#include <cstdint>
#include <vector>

namespace dptrain {

/// Counts the bytes on their way to each process that will be received whatever else happens. About `kBytes`
/// at most are on their way to each process at a time. The rest waits in this process, because a message that the wire
/// has been given can't be overtaken by a more urgent one. Used by one thread, that of the wire.
class SendWindow {
 public:
  explicit SendWindow(int processes) : bytes_(static_cast<size_t>(processes)) {}

  bool is_open(int process) const { return bytes_[static_cast<size_t>(process)] < kBytes; }
  void add(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] += bytes; }
  void remove(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] -= bytes; }

  /// Enough that a wire of 100 Gbit/s doesn't run dry while this process does something else for 0.1 ms.
  static constexpr int64_t kBytes = 1 << 20;

 private:
  std::vector<int64_t> bytes_;  ///< by process
};

}  // namespace dptrain
