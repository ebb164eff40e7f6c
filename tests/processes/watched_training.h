#pragma once

#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "processes/job_training.h"

namespace dptrain::testing {

using Clock = std::chrono::steady_clock;

/// What is promised, which fault.json has as `detected_s`: from the last sign of life of a process on until another one
/// knows that it has died on its own host, or is silent.
inline constexpr double kDeathSeen_s = 1, kSilenceSeen_s = 10;
/// What a busy machine may add to that until all have ended.
inline constexpr double kSlack_s = 3;
inline constexpr double kDeath_s = kDeathSeen_s + kSlack_s;
inline constexpr double kSilence_s = kSilenceSeen_s + kSlack_s;

double seconds_since(Clock::time_point begun);

/// Whether a process is there, other than as what its parent has still to hear of.
bool is_running(pid_t pid);

/// A training by two processes of one rank each that runs for some seconds.
class WatchdogTest : public JobTrainingTest {
 protected:
  Command program(const std::string& name, int devices, const std::string& steps = "200") const;
  std::vector<Command> programs(size_t count = 2, const std::string& steps = "200") const;
  LaunchOptions job(int grace_s = 2, const std::string& steps = "200") const;
  /// Until the second checkpoint, so that all know of the first.
  void wait_until_trained(Process& process) const;

  static std::string host_name();
  /// "process 1 (host h, pid 77, rank 1)"
  static std::string name(const Launch& launch, size_t process, const std::string& host = host_name());

  /// What a survivor has written down and said, which are the same.
  json expect_lost(const Finished& survivor, size_t process, const std::vector<std::string>& words) const;
  std::string hash(const std::string& name) const;
  void expect_bits_of_one_process() const;
  /// The command that the record has goes on from the checkpoint that it names, to the bits of a training that was
  /// never interrupted.
  void expect_resumes(const json& fault, Command on = {}) const;
};

}  // namespace dptrain::testing
