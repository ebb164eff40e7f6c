#include "read_experiment.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "config/config_json.h"
#include "output.h"

namespace dptrain::app {

ReadExperiment::ReadExperiment(const ConfigFlags& flags, train::ConfigJob job)
    : config(flags.load()),
      session(config,
              [&](ConfigReader& reader) {
                if (job.processes > 1) job.store_servers = train::store_servers_of(config);
                experiment = train::read_experiment(reader, flags.default_name(), job);
              }),
      dumped(flags.dump_config) {
  if (!dumped || job.process != 0) return;
  const std::string yaml = session.resolved_yaml();
  write_output(flags.json
                   ? config_json(yaml) + "\n"
                   : fmt::format("{}# config_hash: {}\n", session.resolved_yaml_with_origins(), sha256_of(yaml)));
}

}  // namespace dptrain::app
