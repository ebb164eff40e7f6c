#pragma once

#include "base/signal_name.h"
#include "train/trainer.h"

namespace dptrain::app {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP, and returns the note that they set. The first signal is noted and
/// reported on stderr; training then stops after the current step. A second SIGINT or SIGTERM ends the process at once
/// with exit code 128 plus its number, and nothing is saved. A signal within 0.3 s of the first counts as the same one:
/// a launcher's copy of one Ctrl-C.
train::StopSignal& watch_stop_signals();

/// Makes a second SIGTERM change nothing from now on; for processes of a job. Batch systems send SIGTERM to all
/// processes of a job and to its launcher, and the launcher sends it again after a while. A process that must end is
/// killed anyway.
void take_second_sigterm_for_the_first();

/// Makes all stop signals change and print nothing from now on, because this process is about to end.
void ignore_stop_signals();

}  // namespace dptrain::app
