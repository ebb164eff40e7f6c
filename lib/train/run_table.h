#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/text_table.h"
#include "train/config_difference.h"
#include "train/run_state.h"

namespace dptrain::train {

/// A table of runs: the keys of their configurations in which they differ, and how far they have come.
class RunTable {
 public:
  /// Of at least one run directory. Those that can't be read are left out.
  explicit RunTable(const std::vector<std::filesystem::path>& directories);

  bool empty() const { return runs_.empty(); }
  /// Why directories were left out, a sentence each.
  const std::vector<std::string>& damage() const { return damage_; }

  /// In lines of at most `width` characters.
  std::string text(int width) const;
  std::string markdown() const;
  /// One document; docs/table.schema.json is its schema.
  std::string json() const;

 private:
  std::vector<TableColumn> columns() const;

  std::vector<RunState> runs_;
  std::vector<std::string> damage_;
  std::vector<std::string> labels_;
  std::vector<DifferingKey> differences_;
};

}  // namespace dptrain::train
