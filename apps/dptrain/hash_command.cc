#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.h"
#include "train/run_directory.h"
#include "train/safetensors.h"

namespace dptrain::app {

Run add_hash_command(CLI::App& command) {
  auto checkpoint = std::make_shared<std::string>();
  command.add_option("checkpoint", *checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->type_name("CHECKPOINT");
  return [checkpoint] {
    fmt::print("{}\n", train::weights_hash(train::read_safetensors(train::find_weights(*checkpoint))));
    return 0;
  };
}

}  // namespace dptrain::app
