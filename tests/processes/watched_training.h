#pragma once

#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "processes/job_training.h"

namespace dptrain::testing {

using Clock = std::chrono::steady_clock;

/// The promised limits of `detected_s` in fault.json: the time from a process's last sign of life until another process
/// knows that it has died on its own host, or is silent.
inline constexpr double kDeathSeen_s = 1, kSilenceSeen_s = 10;
/// The time that a busy machine may add to these limits until all processes have ended.
inline constexpr double kSlack_s = 3;
inline constexpr double kDeath_s = kDeathSeen_s + kSlack_s;
inline constexpr double kSilence_s = kSilenceSeen_s + kSlack_s;

double seconds_since(Clock::time_point begun);

/// Whether a process exists and isn't just a zombie that its parent hasn't waited for yet.
bool is_running(pid_t pid);

/// A training run of some seconds, in two processes of one rank each.
class WatchdogTest : public JobTrainingTest {
 protected:
  Command program(const std::string& name, int devices, const std::string& steps = "200") const;
  std::vector<Command> programs(size_t count = 2, const std::string& steps = "200") const;
  LaunchOptions job(int grace_s = 2, const std::string& steps = "200") const;
  /// Waits for the second checkpoint, so that all processes know of the first.
  void wait_until_trained(Process& process) const;

  static std::string host_name();
  /// The name of a process in messages: "process 1 (host h, pid 77, rank 1)".
  static std::string name(const Launch& launch, size_t process, const std::string& host = host_name());

  /// Returns a survivor's record, and expects its message to say the same.
  json expect_lost(const Finished& survivor, size_t process, const std::vector<std::string>& words) const;
  std::string hash(const std::string& name) const;
  void expect_bits_of_one_process() const;
  /// Expects that the command in the record resumes from the checkpoint that it names, and gives weights that are
  /// bit-identical to those of an uninterrupted run.
  void expect_resumes(const json& fault, Command on = {}) const;
};

}  // namespace dptrain::testing
