#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

/// The cost of one call of an operator, the same on every device. On a device that computes, also how the call was
/// done.
struct OperatorCost {
  std::string name;           ///< "conv2d backward weights"
  double flops = 0;           ///< of products: a multiplication and an addition are two; 0 without products
  int64_t bytes = 0;          ///< of the tensors that it is given, and of its results
  std::string operands = {};  ///< shapes of the tensors that it is given, "[64, 1, 28, 28] [20, 1, 5, 5]"
  int64_t held_bytes = 0;     ///< that the device's tensors take at its end; 0: unknown
  // Only on devices that compute:
  std::string way = {};  ///< the algorithm, for operators that have several: "winograd"
  double seconds = 0;    ///< including the operators inside it
  bool inside = false;   ///< it began before another one had ended
};

/// The operators that a device has been given, in order. Several threads may log at once, unless ways, times or nesting
/// are needed. Costs must only be read while no thread logs.
class OperatorLog {
 public:
  /// Notes that the next operator uses this memory, a tensor of that shape. The same memory counts once per operator.
  void touches(const void* memory, int64_t bytes, std::string_view shape = {});
  /// Notes that the next operator computes `flops`.
  void multiplies(double flops);
  /// Notes the algorithm of the innermost operator that has begun and not ended.
  void goes_by(std::string_view way);
  /// Adds an operator that runs inside, or between, others.
  void add(std::string_view name, int64_t bytes);
  /// Begins an operator and returns its number. Operators may contain others, which begin and end in between.
  size_t begin(std::string_view name);
  /// Ends an operator. `held_bytes_before` and `held_bytes` are the bytes of the device's tensors before it began and
  /// now.
  void end(size_t number, int64_t held_bytes_before, int64_t held_bytes, double seconds = 0);

  /// How many operators have begun.
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
