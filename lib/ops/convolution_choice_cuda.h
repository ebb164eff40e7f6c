#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/convolution_plan_cuda.h"

namespace dptrain::ops::cuda {

/// How a device computes a problem: one of several plans. Used by the device's rank thread.
class ConvolutionChoice {
 public:
  enum class By {
    order,  ///< the first that works
    time,   ///< the fastest; the one with the smallest workspace of those that are nearly as fast
  };
  using Plans = std::vector<std::unique_ptr<ConvolutionPlan>>;
  /// `candidates`: those that are likely to be good first. `refusal`: where there are none, the reason. `others` is
  /// asked for more where none of them can be run; may be empty.
  ConvolutionChoice(By by, Plans candidates, std::string refusal, std::function<Plans()> others = {})
      : by_(by), candidates_(std::move(candidates)), refusal_(std::move(refusal)), others_(std::move(others)) {}

  /// Gives the pass to the device's stream; false where no plan is left, for which `refusal` has the reason. The first
  /// call chooses: it may time several plans on these operands, which all of them compute alike, and then blocks.
  bool run(const ConvolutionOperands& operands);
  const std::string& refusal() const { return refusal_; }
  /// Of the chosen plan, once there is one.
  std::string_view name() const;

 private:
  struct Candidate {
    std::unique_ptr<ConvolutionPlan> plan;
    float ms;  ///< of one run, the shortest seen
  };

  void choose(const ConvolutionOperands& operands);
  void choose_among_candidates(const ConvolutionOperands& operands);
  std::vector<Candidate> timed(const ConvolutionOperands& operands);
  bool can_run(ConvolutionPlan& plan, const ConvolutionOperands& operands);

  By by_;
  Plans candidates_;  ///< until one is chosen
  std::unique_ptr<ConvolutionPlan> chosen_;
  std::string refusal_;
  std::function<Plans()> others_;
};

}  // namespace dptrain::ops::cuda
