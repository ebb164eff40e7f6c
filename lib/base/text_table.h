#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

struct TableColumn {
  std::string header;
  std::vector<std::string> cells;  ///< one per row; all columns have the same number
  bool left_aligned = false;
};

/// Adds a row with one cell for each column.
void add_row(std::vector<TableColumn>& columns, const std::vector<std::string>& cells);

/// Formats the columns as lines of at most `width` terminal columns. Columns that don't fit side by side continue in a
/// block below, which repeats the first column. A cell that is still too wide is cut. Different cells that
/// would be cut to the same text are cut at the beginning instead, a little before they first differ.
std::string text_table(const std::vector<TableColumn>& columns, int width);

/// Formats the columns as a Markdown table.
std::string markdown_table(const std::vector<TableColumn>& columns);

/// Breaks `text` into lines of at most `width` columns, between words if possible. Each line ends in a newline.
/// Existing lines keep their breaks and their indentation.
std::string wrapped(std::string_view text, int width);

/// Formats `head` and then the items, separated by commas, in lines of at most `width` columns. Later lines begin where
/// the first item begins. An item is broken, between its words, only if it alone is too long for a line.
std::string wrapped_list(std::string_view head, const std::vector<std::string>& items, int width);

}  // namespace dptrain
