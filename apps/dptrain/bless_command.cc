#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>

#include "base/counted.h"
#include "commands.h"
#include "first_steps_command.h"
#include "output.h"
#include "output_file.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct BlessFlags {
  ConfigFlags common;
  std::string file;
  std::optional<int64_t> steps;
};

std::string said_of(const train::Blessing& blessing, const BlessFlags& flags) {
  const auto& steps = blessing.first.steps;
  const auto share = [&](size_t i) { return 100 * blessing.loss_bounds[i] / std::abs(steps[i].loss); };
  return fmt::format("{}: {} of {}; losses may be {:.2g} % off in step 1, {:.2g} % in step {}\n", flags.file,
                     counted(static_cast<int64_t>(steps.size()), "step"), blessing.run, share(0),
                     share(steps.size() - 1), steps.size());
}

int bless_with(const BlessFlags& flags) {
  const OutputFile file(flags.file, {.name = "a blessing", .beginning = train::Blessing::kBeginning});
  const auto blessing = bless_first_steps(flags.common, flags.steps);
  if (!blessing) return 0;
  const std::string json = blessing->json();
  file.write(json);
  if (flags.common.json)
    write_output(json);
  else if (!flags.common.quiet)
    write_output(said_of(*blessing, flags));
  return 0;
}

}  // namespace

Run add_bless_command(CLI::App& command) {
  auto flags = std::make_shared<BlessFlags>();
  flags->common.add_to(command, {.out = "has no effect in this command, which makes no run"});
  command.add_option("-o", flags->file, "the results, a JSON file for dptrain gate; an existing file is replaced")
      ->required()
      ->check(refuse_empty)
      ->type_name("FILE");
  command
      .add_option("--steps", flags->steps,
                  "training steps, which are trained four times; 20 by default, or as many as the run has")
      ->check(CLI::Range(kFewestBlessedSteps, int64_t{10'000}))
      ->type_name("N");
  return [flags] { return bless_with(*flags); };
}

}  // namespace dptrain::app
