#include "ops/convolution_choice_cuda.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda_device.h"

namespace dptrain::ops::cuda {
namespace {

/// A plan with a larger workspace must take less than this share of the time, as the workspace is memory that
/// activations could have.
constexpr float kWorthMemory = 0.95f;
/// Candidates that are slower than the best by this factor are timed once. For the others the shortest of several times
/// counts.
constexpr float kFarFromBest = 1.5f;
constexpr int kRounds = 3;
/// Passes that take longer than this are timed once: one run shows their time, and training must begin within three
/// seconds.
constexpr float kLong_ms = 1;
/// For passes shorter than this, several runs are timed together, after an untimed one, as enqueuing a run takes a good
/// part of its time.
constexpr float kShort_ms = 0.1f;
/// When the single runs of a problem's candidates add up to this, no further candidate is tried: the likely best come
/// first.
constexpr float kMostTrying_ms = 12;
/// How long to run before timing, as an idle GPU needs time to reach its clock.
constexpr double kWarmUp_s = 0.02;

/// Whether a device has computed for a while.
struct Warmth {
  explicit Warmth(Device&) {}
  bool is_warm = false;
};

void warm_up(ConvolutionPlan& plan, const ConvolutionOperands& operands) {
  Device& device = operands.out.device();
  if (std::exchange(device.attached<Warmth>().is_warm, true)) return;
  const auto begun = Clock::now();
  do {
    plan.run(operands);
    device.synchronize();
  } while (seconds_since(begun) < kWarmUp_s);
}

/// Returns the milliseconds per run if `runs` of them are enqueued one after the other.
float milliseconds_of(int runs, CudaTimer& timer, ConvolutionPlan& plan, const ConvolutionOperands& operands) {
  const cudaStream_t stream = CudaDevice::of(operands.out.device()).stream();
  timer.start(stream);
  for (int run = 0; run < runs; ++run) plan.run(operands);
  timer.stop(stream);
  return timer.milliseconds() / static_cast<float>(runs);
}

float milliseconds(CudaTimer& timer, ConvolutionPlan& plan, const ConvolutionOperands& operands) {
  const float once = milliseconds_of(1, timer, plan, operands);
  if (once > kShort_ms) return once;
  plan.run(operands);
  return milliseconds_of(4, timer, plan, operands);
}

}  // namespace

bool ConvolutionChoice::run(const ConvolutionOperands& operands) {
  if (!candidates_.empty()) choose(operands);
  if (chosen_ == nullptr) return false;
  if (chosen_->run(operands)) return true;
  refusal_ = chosen_->refusal();
  chosen_.reset();
  return false;
}

std::string_view ConvolutionChoice::name() const { return chosen_ == nullptr ? "" : chosen_->name(); }

void ConvolutionChoice::choose(const ConvolutionOperands& operands) {
  choose_among_candidates(operands);
  if (const auto others = std::exchange(others_, {}); chosen_ == nullptr && others) {
    candidates_ = others();
    choose_among_candidates(operands);
  }
}

void ConvolutionChoice::choose_among_candidates(const ConvolutionOperands& operands) {
  Device& device = operands.out.device();
  // Recorded work can't be timed, and keeps its workspace.
  const bool is_recording = CudaDevice::of(device).is_recording();
  // Outside a recording, the pool for recorded work must not be used: workspaces that are only tried would stay in it
  // for good.
  const PoolInUse pool(device.allocator(), is_recording ? MemoryPool::recorded : MemoryPool::common);
  if (by_ == By::order || is_recording) {
    const auto working = std::ranges::find_if(candidates_, [&](auto& plan) { return can_run(*plan, operands); });
    if (working != candidates_.end()) chosen_ = std::move(*working);
  } else {
    std::vector<Candidate> best = timed(operands);
    const auto bytes = [](const Candidate& one) { return one.plan->workspace_bytes(); };
    if (!best.empty()) chosen_ = std::move(std::ranges::min_element(best, {}, bytes)->plan);
  }
  candidates_.clear();
}

/// Times the candidates and returns those that are nearly as fast as the fastest.
std::vector<ConvolutionChoice::Candidate> ConvolutionChoice::timed(const ConvolutionOperands& operands) {
  std::vector<Candidate> tried;
  CudaTimer timer;
  float spent_ms = 0;
  for (auto& plan : candidates_) {
    if (!can_run(*plan, operands)) continue;  // this also loads the plan's kernels
    warm_up(*plan, operands);
    const float ms = milliseconds(timer, *plan, operands);
    tried.push_back({std::move(plan), ms});
    if ((spent_ms += ms) > kMostTrying_ms) break;
  }
  const auto erase_slower_than = [&tried](float factor) {
    if (tried.empty()) return;
    const float most_ms = factor * std::ranges::min_element(tried, {}, &Candidate::ms)->ms;
    std::erase_if(tried, [most_ms](const Candidate& one) { return one.ms > most_ms; });
  };
  const bool is_long = !tried.empty() && std::ranges::min_element(tried, {}, &Candidate::ms)->ms >= kLong_ms;
  erase_slower_than(kFarFromBest);
  // The candidates take turns, as a GPU's clock changes.
  for (int round = 1; round < (is_long ? 1 : kRounds) && tried.size() > 1; ++round)
    for (Candidate& one : tried) one.ms = std::min(one.ms, milliseconds(timer, *one.plan, operands));
  erase_slower_than(1 / kWorthMemory);
  return tried;
}

/// Whether a plan can run, which includes that it gets its memory. If runs must be repeatable, a lack of memory must
/// not change the choice, so its error is thrown.
bool ConvolutionChoice::can_run(ConvolutionPlan& plan, const ConvolutionOperands& operands) {
  try {
    if (plan.run(operands)) return true;
    refusal_ = plan.refusal();
  } catch (const Error& error) {
    if (by_ == By::order) throw;
    refusal_ = error.what();
  }
  return false;
}

}  // namespace dptrain::ops::cuda
