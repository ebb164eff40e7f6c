#pragma once

#include "base/signal_name.h"
#include "train/trainer.h"

namespace dptrain::app {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP. The first signal is noted, and said on stderr, so that training
/// stops after the step in hand; a second SIGINT or SIGTERM ends the process at once with 128 and its number, and what
/// it had in hand isn't saved. One within 0.3 s of the first is the same: a launcher's copy of one Ctrl-C. Returns the
/// note.
train::StopSignal& watch_stop_signals();

/// From now on a second SIGTERM changes nothing: batch systems send it to all processes of a job and to its launcher,
/// which sends it again once it has waited for long enough; whoever has to end is killed. For processes of a job.
void take_second_sigterm_for_the_first();

/// From now on they change nothing, and nothing is said of them: this process is about to end.
void ignore_stop_signals();

}  // namespace dptrain::app
