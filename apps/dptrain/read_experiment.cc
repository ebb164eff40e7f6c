#include "read_experiment.h"

#include "output.h"

namespace dptrain::app {

ReadExperiment::ReadExperiment(const ConfigFlags& flags)
    : session(flags.load(),
              [&](ConfigReader& reader) { experiment = train::read_experiment(reader, flags.default_name()); }),
      dumped(flags.dump_config) {
  if (dumped) write_output(session.resolved_yaml_with_origins());
}

}  // namespace dptrain::app
