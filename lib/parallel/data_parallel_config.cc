#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/tree_sum.h"
#include "parallel/data_parallel.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {

StrategySpec read_data_parallel(ConfigReader& options, const StrategyRequest& request) {
  const int devices = request.devices;
  DataParallel::Options read;
  const std::vector<std::string> criteria = {"gathered", "parallel"};
  const std::string criterion =
      options.one_of("criterion", criteria, criteria[0],
                     "where the loss is computed: on one device from all outputs, or on each device from its own");
  read.criterion = criterion == criteria[0] ? Criterion::gathered : Criterion::parallel;
  read.output_rank = static_cast<int>(
      options.integer("output_device", 0,
                      {.min = 0,
                       .max = kMostRanks - 1,
                       .help = "where outputs are gathered and the loss is computed: a position in the device list, "
                               "from 0; with criterion: gathered"}));
  if (read.output_rank >= devices && !options.describing())
    options.mistake("output_device", fmt::format("expected a position in the device list, 0 to {}", devices - 1),
                    fmt::format("{}", read.output_rank), "name one of the devices");
  if (read.output_rank != 0 && read.criterion == Criterion::parallel)
    options.mistake("output_device", "expected none with criterion: parallel, which gathers nothing",
                    fmt::format("{}", read.output_rank), "leave it out, or write criterion: gathered");
  return {.name = {},
          .make = [read](const StrategyContext& context) { return std::make_unique<DataParallel>(context, read); },
          .parts = devices};
}

}  // namespace dptrain::parallel
