#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "commands.h"
#include "output.h"
#include "train/run_table.h"
#include "value_checks.h"

namespace dptrain::app {
namespace {

struct TableFlags {
  std::vector<std::string> directories;
  std::string sort;
  bool json = false;
  bool markdown = false;
};

int print_table(const TableFlags& flags) {
  train::RunTable table({flags.directories.begin(), flags.directories.end()});
  if (table.empty()) throw Error(*table.left_out());
  if (!flags.sort.empty()) table.sort_by(flags.sort);
  if (flags.json)
    write_output(table.json() + "\n");
  else
    write_output(flags.markdown ? table.markdown() : table.text(terminal_width(STDOUT_FILENO)));
  if (table.left_out()) throw Error(*table.left_out());
  return 0;
}

}  // namespace

Run add_table_command(CLI::App& command) {
  auto flags = std::make_shared<TableFlags>();
  command.add_option("directories", flags->directories, "run directories, or folders of them")
      ->required()
      ->check(refuse_empty)
      ->type_name("RUN_DIR");
  command
      .add_option("--sort", flags->sort,
                  "the best first by accuracy, test_loss, validation_accuracy, validation_loss, train_loss or seconds; "
                  "or in the order of a key in which the runs differ; by default in the order of their names")
      ->check(refuse_empty)
      ->type_name("KEY");
  auto* json = command.add_flag("--json", flags->json, "one JSON document");
  command.add_flag("--markdown", flags->markdown, "a table of Markdown")->excludes(json);
  return [flags] { return print_table(*flags); };
}

}  // namespace dptrain::app
