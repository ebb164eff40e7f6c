#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dptrain {

struct TableColumn {
  std::string header;
  std::vector<std::string> cells;  ///< one a row, as many in every column
  bool left_aligned = false;
};

/// A cell for each column.
void add_row(std::vector<TableColumn>& columns, const std::vector<std::string>& cells);

/// The columns as lines of at most `width` columns of a terminal. Those that don't fit beside each other go on in a
/// block below, behind the first column again; a cell that is too wide even so is cut, unlike ones where they differ.
std::string text_table(const std::vector<TableColumn>& columns, int width);

/// The same as a table of Markdown.
std::string markdown_table(const std::vector<TableColumn>& columns);

/// `text` in lines of at most `width` columns, broken between words where that is possible; each ends in a newline.
/// Where it has lines itself, these stay, and are indented as far as they were.
std::string wrapped(std::string_view text, int width);

/// `head` and the items behind it with commas between them, in lines of at most `width` columns; the lines after the
/// first begin where the first item does. An item is broken, between its words, where it alone is too long for a line.
std::string wrapped_list(std::string_view head, const std::vector<std::string>& items, int width);

}  // namespace dptrain
