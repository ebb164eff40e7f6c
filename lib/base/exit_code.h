#pragma once

namespace dptrain {

/// Exit codes of the program, after sysexits.h, so that a script can branch on them.
enum class ExitCode : int {
  ok = 0,
  assertion_failed = 1,  ///< an assertion of `compare`, or what `verify` or `gate` asks for, did not hold
  usage = 64,            ///< a mistake in the command line
  bad_data = 65,         ///< a data file or checkpoint exists but is wrong
  missing_file = 66,
  job_not_formed = 69,
  bug = 70,        ///< a bug in dptrain
  device = 71,     ///< a device is missing or has failed, or is out of memory
  io = 74,         ///< input or output failed, disk full, directory in use
  peer_lost = 75,  ///< another rank or process was lost; the run can be resumed
  ranks_disagree = 76,
  config = 78,
  diverged = 79,      ///< the loss is no longer finite, or devices' weights differ
  interrupted = 130,  ///< SIGINT, after the current step and a checkpoint
  terminated = 143,   ///< SIGTERM, after the current step and a checkpoint
};

/// The exit code that a shell sees for a program that a signal has ended: 130 for SIGINT.
constexpr ExitCode exit_code_of_signal(int signal) { return static_cast<ExitCode>(128 + signal); }

}  // namespace dptrain
