#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/convolution_plan_cuda.h"

namespace dptrain::ops::cuda {

/// Chooses one of several plans for a problem on a device, and runs it. Used by the device's rank thread.
class ConvolutionChoice {
 public:
  enum class By {
    order,  ///< the first plan that works
    time,   ///< of the fastest plan and those nearly as fast, the one with the smallest workspace
  };
  using Plans = std::vector<std::unique_ptr<ConvolutionPlan>>;
  /// `candidates`: the plans, with the likely best first. `refusal`: the reason if there are no candidates. `others`
  /// may be empty; if no candidate can be run, it is called for more plans.
  ConvolutionChoice(By by, Plans candidates, std::string refusal, std::function<Plans()> others = {})
      : by_(by), candidates_(std::move(candidates)), refusal_(std::move(refusal)), others_(std::move(others)) {}

  /// Enqueues the pass on the device's stream. Returns false if no plan is left; `refusal` then has the reason. The
  /// first call chooses the plan. It may time several plans on these operands, and then blocks; all plans compute the
  /// same result.
  bool run(const ConvolutionOperands& operands);
  const std::string& refusal() const { return refusal_; }
  /// The name of the chosen plan, or "" if there is none.
  std::string_view name() const;

 private:
  struct Candidate {
    std::unique_ptr<ConvolutionPlan> plan;
    float ms;  ///< of the shortest run so far
  };

  void choose(const ConvolutionOperands& operands);
  void choose_among_candidates(const ConvolutionOperands& operands);
  std::vector<Candidate> timed(const ConvolutionOperands& operands);
  bool can_run(ConvolutionPlan& plan, const ConvolutionOperands& operands);

  By by_;
  Plans candidates_;  ///< empty once a plan is chosen
  std::unique_ptr<ConvolutionPlan> chosen_;
  std::string refusal_;
  std::function<Plans()> others_;
};

}  // namespace dptrain::ops::cuda
