#include "parallel/injected_fault.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest_name.h"

namespace dptrain::parallel {
namespace {

using Kind = InjectedFault::Kind;

bool is_of_weights(const InjectedFault& fault) { return fault.kind == Kind::flip || fault.kind == Kind::nan; }

/// Returns the parameter that the fault names, or by default the last one that the rank has a part of; null if there is
/// none.
const Parameter* parameter_of(const InjectedFault& fault, const nn::Model& model, const OwnWeight& own) {
  const auto& parameters = model.parameters();
  const auto is_own = [&](const Parameter* parameter) { return own(*parameter).defined(); };
  if (fault.parameter.empty()) {
    const auto last = std::find_if(parameters.rbegin(), parameters.rend(), is_own);
    return last == parameters.rend() ? nullptr : *last;
  }
  const auto found = std::ranges::find(parameters, fault.parameter, &Parameter::name);
  return found == parameters.end() ? nullptr : *found;
}

void require_parameter(const InjectedFault& fault, const nn::Model& model, const OwnWeight& own) {
  const Parameter* found = parameter_of(fault, model, own);
  if (found != nullptr && own(*found).defined()) return;
  std::vector<std::string> names;
  for (const Parameter* parameter : model.parameters()) names.push_back(parameter->name());
  const std::string nearest = nearest_name(fault.parameter, names);
  std::string advice =
      nearest.empty() ? "dptrain plan --layers lists the model's stages" : fmt::format("did you mean '{}'?", nearest);
  if (found != nullptr) advice = "other ranks have all of it; name another parameter, or none";
  throw Error(ExitCode::usage, Mistake{.where = "--fault",
                                       .expected = fmt::format("expected a parameter that rank {} trains", fault.rank),
                                       .got = fmt::format("'{}'", fault.parameter),
                                       .advice = advice});
}

/// Stops this process for a time. A stopped process can't continue itself, so another process stops and continues it.
/// That process holds none of this one's open files, and ends if this one has ended meanwhile.
void stop_for(double seconds) {
  constexpr double kLook_s = 0.5;
  const double looks = std::ceil(seconds / kLook_s);
  std::string words = fmt::format(
      "kill -STOP {0}; n={1}; while [ $n -gt 0 ]; do sleep {2:.3f}; kill -0 {0} || exit; n=$((n-1)); done; "
      "kill -CONT {0}",
      ::getpid(), looks, seconds / looks);
  std::array<std::string, 2> begin = {"sh", "-c"};
  const std::array<char*, 4> arguments = {begin[0].data(), begin[1].data(), words.data(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, "/bin/sh", &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  DPTRAIN_CHECK(failed == 0, "no process could be begun, errno {}", failed);
  // The other process ends once it has let this one continue.
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void need_memory(Device& device) {
  constexpr int64_t kFloats = int64_t{1} << 48;  // a petabyte
  Tensor::empty(device, {kFloats});
}

bool is_slow_in(const InjectedFault& fault, int64_t step) {
  return step >= fault.step && (fault.steps == 0 || step < fault.step + fault.steps);
}

void damage(const InjectedFault& fault, const Tensor& weight) {
  constexpr uint32_t kBit = 1U << 20;  // a bit of a float's mantissa, high enough not to be rounded away
  Device& device = weight.device();
  float value = 0;
  device.download(&value, weight.raw(), sizeof value);
  value = fault.kind == Kind::nan ? std::numeric_limits<float>::quiet_NaN()
                                  : std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ kBit);
  device.upload(weight.raw(), &value, sizeof value);
}

}  // namespace

RankFaults::RankFaults(const std::vector<InjectedFault>& all, int world_rank, const nn::Model& model,
                       const OwnWeight& own) {
  std::ranges::copy_if(all, std::back_inserter(own_), [&](const auto& fault) { return fault.rank == world_rank; });
  for (const InjectedFault& fault : own_)
    if (is_of_weights(fault)) require_parameter(fault, model, own);
}

void RankFaults::begin_step(int64_t step, Device& device) const {
  for (const InjectedFault& fault : own_) {
    if (fault.step != step) continue;
    if (fault.kind == Kind::kill) ::kill(::getpid(), SIGKILL);
    if (fault.kind == Kind::stop && fault.seconds > 0) stop_for(fault.seconds);
    if (fault.kind == Kind::stop && fault.seconds == 0) ::kill(::getpid(), SIGSTOP);
    if (fault.kind == Kind::hang) hang();
    if (fault.kind == Kind::memory) need_memory(device);
  }
}

bool RankFaults::may_delay() const {
  return std::ranges::any_of(own_, [](const InjectedFault& fault) { return fault.kind == Kind::slow; });
}

double RankFaults::delay_s(int64_t step) const {
  double seconds = 0;
  for (const InjectedFault& fault : own_)
    if (fault.kind == Kind::slow && is_slow_in(fault, step)) seconds += fault.seconds;
  return seconds;
}

bool RankFaults::end_step(int64_t step, const nn::Model& model, const OwnWeight& own) const {
  bool is_wrong = false;
  for (const InjectedFault& fault : own_) {
    if (!is_of_weights(fault) || fault.step != step) continue;
    damage(fault, own(*parameter_of(fault, model, own)));
    is_wrong = true;
  }
  return is_wrong;
}

}  // namespace dptrain::parallel
