#include "commands.h"
#include "config/config_reader.h"
#include "output.h"
#include "train/experiment.h"

namespace dptrain::app {

Run add_schema_command(CLI::App&) {
  return [] {
    write_output(
        ConfigSession::schema("dptrain experiment", [](ConfigReader& reader) { train::read_experiment(reader, ""); }));
    return 0;
  };
}

}  // namespace dptrain::app
