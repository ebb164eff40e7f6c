#include <fmt/format.h>

#include "commands.h"
#include "config/config_reader.h"
#include "train/experiment.h"

namespace dptrain::app {

Run add_schema_command(CLI::App&) {
  return [] {
    fmt::print("{}\n", ConfigSession::schema("dptrain experiment",
                                             [](ConfigReader& reader) { train::read_experiment(reader, ""); }));
    return 0;
  };
}

}  // namespace dptrain::app
