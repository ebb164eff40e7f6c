#include "base/signal_name.h"

#include <signal.h>

namespace dptrain {

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    default: return "SIGTERM";
  }
}

}  // namespace dptrain
