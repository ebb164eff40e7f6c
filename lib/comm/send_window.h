#pragma once

#include <cstdint>
#include <vector>

namespace dptrain {

/// What is on its way to each process, and will be received whatever else happens. There is little of it at a time: the
/// rest waits here, where what is more urgent may still go before it, as nothing can that the wire has been given. Used
/// by one thread, that of the wire.
class SendWindow {
 public:
  explicit SendWindow(int processes) : bytes_(static_cast<size_t>(processes)) {}

  bool is_open(int process) const { return bytes_[static_cast<size_t>(process)] < kBytes; }
  void add(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] += bytes; }
  void remove(int process, int64_t bytes) { bytes_[static_cast<size_t>(process)] -= bytes; }

  /// So that a wire of 100 Gbit/s doesn't run dry while this process does something else for 0.1 ms.
  static constexpr int64_t kBytes = 1 << 20;

 private:
  std::vector<int64_t> bytes_;  ///< by process
};

}  // namespace dptrain
