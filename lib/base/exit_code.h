#pragma once

namespace dptrain {

/// Exit codes of the program, after sysexits.h, so that a script can branch on them.
enum class ExitCode : int {
  ok = 0,
  assertion_failed = 1,  ///< an assertion of `compare`, or what `verify` or `gate` asks for, did not hold
  usage = 64,            ///< the command line
  bad_data = 65,         ///< a data file or checkpoint that is there, but wrong
  missing_file = 66,
  job_not_formed = 69,
  bug = 70,        ///< ours
  device = 71,     ///< a device that is absent or failed, or memory
  io = 74,         ///< input or output failed, disk full, directory in use
  peer_lost = 75,  ///< resumable
  ranks_disagree = 76,
  config = 78,
  diverged = 79,      ///< the loss is no longer finite, or devices have other weights
  interrupted = 130,  ///< SIGINT, after the step in hand and a checkpoint
  terminated = 143,   ///< SIGTERM, the same
};

/// What a program that a signal has ended exits with, to a shell: 130 of SIGINT.
constexpr ExitCode exit_code_of_signal(int signal) { return static_cast<ExitCode>(128 + signal); }

}  // namespace dptrain
