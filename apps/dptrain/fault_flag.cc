#include "fault_flag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "train/fault_spec.h"

namespace dptrain::app {

void add_fault_flag(CLI::App& command, std::vector<parallel::InjectedFault>& faults, const std::string& help) {
  command
      .add_option_function<std::vector<std::string>>(
          "--fault",
          [&faults](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) faults.push_back(train::read_fault(text));
          },
          help)
      ->type_name("KIND:KEY=VALUE,...")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

std::string faults_text(const std::vector<parallel::InjectedFault>& faults) {
  if (faults.empty()) return "not given";
  return fmt::format("{}", fmt::join(train::fault_texts(faults), " and "));
}

}  // namespace dptrain::app
