#include "parallel/pass_recorder.h"

#include "base/check.h"
#include "device/device_range.h"

namespace dptrain::parallel {

void PassRecorder::make_step(const StepParts& parts, const std::function<void(Mode)>& give) {
  using How = StepRecorder::How;
  Device& device = replica_.device();
  // A planned device's operators must keep their places among its messages, so they aren't recorded.
  if (!device.can_record() || !device.computes() || !replica_.records_steps()) {
    agreed(How::done);
    return give(Mode::done);
  }
  const auto [at, is_new] = steps_.try_emplace(replica_.step_signature(parts));
  step_ = &at->second;
  const How how = agreed(is_new ? How::done : step_->is_recorded ? How::replayed : How::recorded);
  {
    const DeviceRange range(device, StepRecorder::range_name(how));
    if (how == How::done) {
      const PoolInUse pool(device.allocator(), MemoryPool::recorded);
      give_in(Mode::done, give);
    } else {
      if (how == How::recorded) rehearse(give);
      give_in(Mode::replayed, give);
      DPTRAIN_CHECK(!has_more(), "a replayed step has fewer passes than it was recorded with");
      replica_.count_graph_step();
    }
  }
  step_ = nullptr;
  mode_ = Mode::done;
}

void PassRecorder::rehearse(const std::function<void(Mode)>& give) {
  Device& device = replica_.device();
  {
    const PoolInUse pool(device.allocator(), MemoryPool::recorded);
    RecordedSection::make_room(device);
    device.synchronize();  // no work under way waits for another device
    agreed(StepRecorder::How::recorded);
    *step_ = {.is_recorded = true, .idle = device.allocator().in_use(), .passes = {}, .received = {}};
    give_in(Mode::rehearsed, give);
  }
  agreed(StepRecorder::How::recorded);
}

void PassRecorder::give_in(Mode mode, const std::function<void(Mode)>& give) {
  mode_ = mode;
  next_ = 0;
  give(mode);
}

std::vector<Tensor> PassRecorder::run(const std::function<std::vector<Tensor>()>& give) {
  switch (mode_) {
    case Mode::done: {
      // Another replica, or stage, on the GPU may be about to record while this one's kernels are loaded.
      const std::shared_ptr<void> recording_off = records() ? replica_.device().keep_recording_off() : nullptr;
      return give();
    }
    case Mode::rehearsed: {
      std::vector<Tensor> results, kept;
      RecordedSection work(replica_.device(), step_->idle, [&] { results = give(); });
      for (const Tensor& result : results) kept.push_back(result.defined() ? result.borrowed() : result);
      step_->passes.push_back({.work = std::move(work), .results = std::move(kept)});
      return results;
    }
    case Mode::replayed: break;
  }
  DPTRAIN_CHECK(has_more(), "a replayed step has more passes than it was recorded with");
  Pass& pass = step_->passes[next_++];
  pass.work.run();
  return pass.results;
}

void PassRecorder::run_without_results(const std::function<void()>& give) {
  run([&] {
    give();
    return std::vector<Tensor>();
  });
}

Tensor PassRecorder::place_of(const StageLink& link, int64_t micro_batch) const {
  if (mode_ != Mode::replayed) return {};
  const auto found = step_->received.find({&link, micro_batch});
  return found != step_->received.end() ? found->second : Tensor();
}

void PassRecorder::note_received(const StageLink& link, int64_t micro_batch, const Tensor& value) {
  if (mode_ == Mode::rehearsed) step_->received[{&link, micro_batch}] = value.borrowed();
}

}  // namespace dptrain::parallel
