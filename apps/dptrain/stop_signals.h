#pragma once

#include "train/trainer.h"

namespace dptrain::app {

/// Installs handlers for SIGINT and SIGTERM. The first signal is noted, so that training stops after the step in hand;
/// a second SIGINT ends the process at once. Returns the note.
train::StopSignal& watch_stop_signals();

/// "SIGINT"
const char* signal_name(int signal);

}  // namespace dptrain::app
