#include "comm/nccl_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "device/cuda_check.h"

namespace dptrain {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);

}  // namespace

NcclWatch::NcclWatch(const std::vector<Device*>& devices, const Options& options, Hooks hooks)
    : options_(options), hooks_(std::move(hooks)) {
  for (Device* device : devices) {
    device->enter_thread();  // an event belongs to the GPU that records it
    const int rank = options.first_rank + static_cast<int>(places_.size());
    Place& place = places_.emplace_back();
    place.device = device;
    place.name = fmt::format("rank {} ({})", rank, device->name());
  }
  thread_ = std::thread([this] { run(); });
}

NcclWatch::~NcclWatch() {
  ending_ = true;
  thread_.join();
}

void NcclWatch::expect(int place, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) return;
  const std::lock_guard lock(mutex_);
  Given& given = given_to(places_[static_cast<size_t>(place)], stream);
  if (given.waits) {
    given.latest.record(stream);
    given.has_latest = true;
  } else {
    given.earlier.record(stream);
    given.waits = true;
    given.since = Clock::now();
  }
}

NcclWatch::Given& NcclWatch::given_to(Place& place, cudaStream_t stream) {
  const auto found = std::ranges::find(place.streams, stream, &Given::stream);
  return found != place.streams.end() ? *found : place.streams.emplace_back(Given{.stream = stream});
}

bool NcclWatch::waits(int place) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(places_[static_cast<size_t>(place)].streams, [](const Given& given) {
    return given.waits && !(given.has_latest ? given.latest : given.earlier).done();
  });
}

void NcclWatch::run() {
  bool sees = true;
  while (!ending_) {
    if (options_.exchange.has_failed()) return hooks_.abort();
    try {
      for (int place = 0; sees && place < static_cast<int>(places_.size()); ++place) look_at(place);
    } catch (const Error&) {
      sees = false;  // a device has failed; its rank's own thread reports it with its next call
    }
    std::this_thread::sleep_for(kPause);
  }
}

void NcclWatch::look_at(int place) {
  const std::string error = hooks_.error_of(place);
  const std::lock_guard lock(mutex_);
  // Without this, the thread would use the first GPU and take memory there.
  places_[static_cast<size_t>(place)].device->enter_thread();
  Place& own = places_[static_cast<size_t>(place)];
  bool is_overdue = false;
  for (Given& given : own.streams) {
    if (given.waits && given.earlier.done()) {
      std::swap(given.earlier, given.latest);
      given.waits = std::exchange(given.has_latest, false);
      given.since = Clock::now();
    }
    is_overdue |= given.waits && seconds_since(given.since) > options_.timeout_s + grace_s();
  }
  if (error.empty())
    own.error_since.reset();
  else if (!own.error_since)
    own.error_since = Clock::now();
  if (own.error_since && seconds_since(*own.error_since) > kRootCause_s) {
    fail(fmt::format("{}: NCCL says: {}", own.name, error));
  } else if (is_overdue) {
    fail(fmt::format("{} waited over {:g} s for GPUs of other processes in a sum or copy of NCCL", own.name,
                     options_.timeout_s));
  }
}

double NcclWatch::grace_s() const { return std::min(kRootCause_s, options_.timeout_s); }

void NcclWatch::fail(const std::string& sentence) {
  options_.exchange.fail({.code = ExitCode::peer_lost, .sentence = sentence});
}

}  // namespace dptrain
