#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

/// What one call of an operator costs any device that computes it and, on a device that does, how it was done.
struct OperatorCost {
  std::string name;  ///< "conv2d backward weights"
  double flops = 0;  ///< of products: a multiplication and an addition are two; 0 of operators that only go over memory
  int64_t bytes = 0;          ///< of the tensors that it is given, and of the memory that it leaves taken: its results
  std::string operands = {};  ///< shapes of the tensors that it is given, "[64, 1, 28, 28] [20, 1, 5, 5]"
  int64_t held_bytes = 0;     ///< that the device's tensors take at its end; 0: not known
  // On devices that compute:
  std::string way = {};  ///< the algorithm, of operators that have several: "winograd"
  double seconds = 0;    ///< with the operators inside
  bool inside = false;   ///< begun before another had ended
};

/// The operators that a device has been given, in order. Threads may log at once, where ways, times and what is inside
/// what aren't asked for; costs are read while none does.
class OperatorLog {
 public:
  /// The operator that begins next is given this memory, a tensor's of that shape. Said more than once it counts once.
  void touches(const void* memory, int64_t bytes, std::string_view shape = {});
  /// The operator that begins next computes so much.
  void multiplies(double flops);
  /// The innermost operator that has begun and not ended is done in this way.
  void goes_by(std::string_view way);
  /// One that is done within, or between, others.
  void add(std::string_view name, int64_t bytes);
  /// Returns its number. Operators may be made of others, which begin and end in between.
  size_t begin(std::string_view name);
  /// `held_bytes`: that the device's tensors took before it began, and take now.
  void end(size_t number, int64_t held_bytes_before, int64_t held_bytes, double seconds = 0);

  /// How many have begun.
  size_t size();
  const std::vector<OperatorCost>& costs() const { return costs_; }
  void clear();

 private:
  std::mutex mutex_;
  OperatorCost next_;
  std::vector<const void*> touched_;
  std::vector<OperatorCost> costs_;
  std::vector<size_t> open_;  ///< places in costs_ of operators that have begun and not ended, the innermost last
};

}  // namespace dptrain
