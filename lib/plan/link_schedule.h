#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace dptrain::plan {

/// Schedules operations that share links and gives the end of each. A link carries one operation after the other, in
/// the order of their arrival. An operation of higher priority goes first and interrupts others, as in
/// comm/simulated_links.h.
class LinkSchedule {
 public:
  explicit LinkSchedule(size_t operations) : ends_(operations) {}

  struct Use {
    std::vector<int> links;  ///< empty if it occupies all of them
    int priority = 0;
    double ready = 0;  ///< when it could begin; never earlier than that of the previous operation
    double seconds = 0;
    /// How long an operation that it interrupts still continues, with data already on its way.
    double on_its_way_s = 0;
  };
  void take(size_t operation, const Use& use);
  /// Sets the end of an operation that uses no links.
  void set_end(size_t operation, double end) { ends_[operation] = end; }
  /// The end as far as it is known: later operations may postpone it. Nothing before the operation has taken its links.
  std::optional<double> end(size_t operation) const { return ends_[operation]; }

 private:
  struct UnderWay {
    size_t operation = 0;
    std::vector<int> links;
    int priority = 0;
  };

  std::vector<std::optional<double>> ends_;
  std::vector<UnderWay> under_way_;
};

}  // namespace dptrain::plan
