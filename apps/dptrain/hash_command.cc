#include <memory>
#include <string>

#include "commands.h"
#include "output.h"
#include "train/run_directory.h"
#include "train/safetensors.h"
#include "value_checks.h"

namespace dptrain::app {

Run add_hash_command(CLI::App& command) {
  auto checkpoint = std::make_shared<std::string>();
  command.add_option("checkpoint", *checkpoint, "a .safetensors file, a checkpoint's folder or a run directory")
      ->required()
      ->check(refuse_empty)
      ->type_name("CHECKPOINT");
  return [checkpoint] {
    write_output(train::weights_hash(train::read_safetensors(train::find_weights(*checkpoint, tell_of_damage))) + "\n");
    return 0;
  };
}

}  // namespace dptrain::app
