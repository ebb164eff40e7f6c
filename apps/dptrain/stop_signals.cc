#include "stop_signals.h"

#include <signal.h>
#include <unistd.h>

namespace dptrain::app {
namespace {

// A signal handler reaches nothing but static storage.
train::StopSignal stop_signal = 0;
static_assert(train::StopSignal::is_always_lock_free);

extern "C" void note_signal(int signal) {
  int none = 0;
  if (!stop_signal.compare_exchange_strong(none, signal) && signal == SIGINT) ::_exit(130);
}

}  // namespace

train::StopSignal& watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // A reader of our output that went away is an error of the write, not the end of a training.
  ::signal(SIGPIPE, SIG_IGN);
  return stop_signal;
}

const char* signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace dptrain::app
