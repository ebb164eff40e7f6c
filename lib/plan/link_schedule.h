#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace dptrain::plan {

/// When operations end that share links: on each link one after the other as they come, but what has a higher priority
/// before others, which are interrupted for it, as comm/simulated_links.h has it.
class LinkSchedule {
 public:
  explicit LinkSchedule(size_t operations) : ends_(operations) {}

  struct Use {
    std::vector<int> links;  ///< none where it takes all
    int priority = 0;
    double ready = 0;  ///< when it could begin; never earlier than that of the last one
    double seconds = 0;
    double on_its_way_s = 0;  ///< of what is interrupted for it so much goes first, as it is on its way already
  };
  void take(size_t operation, const Use& use);
  /// An operation that takes no links.
  void set_end(size_t operation, double end) { ends_[operation] = end; }
  /// As far as it is known: what comes later may put it off. Nothing before the operation has taken its links.
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
