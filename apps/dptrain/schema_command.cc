#include "commands.h"
#include "config_flags.h"
#include "output.h"

namespace dptrain::app {

Run add_schema_command(CLI::App&) {
  return [] {
    write_output(experiment_schema());
    return 0;
  };
}

}  // namespace dptrain::app
