#include "planted_weight.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "base/error.h"

namespace dptrain::app {
namespace {

constexpr const char* kVariable = "DPTRAIN_TRAIN_FAULT";

}  // namespace

std::optional<parallel::PlantedWeight> planted_weight() {
  const char* said = std::getenv(kVariable);
  if (said == nullptr || *said == '\0') return std::nullopt;
  using What = parallel::PlantedWeight::What;
  parallel::PlantedWeight planted;
  std::istringstream words(said);
  std::string what, more;
  words >> what >> planted.rank >> planted.step >> planted.parameter;
  if (!words || (words >> more) || (what != "flip" && what != "nan"))
    throw Error(ExitCode::usage, Mistake{.where = kVariable,
                                         .expected = "expected 'flip' or 'nan', a rank, a step and a parameter's name",
                                         .got = fmt::format("'{}'", said),
                                         .advice = "unset it"});
  planted.what = what == "nan" ? What::not_a_number : What::flipped_bit;
  return planted;
}

}  // namespace dptrain::app
