#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text_table.h"

namespace dptrain {

/// A column of a table of HTML.
struct HtmlColumn {
  std::string header;
  std::vector<std::string> cells;  ///< HTML, one a row, as many in every column
  std::string_view look = "";      ///< the class of its cells: "number", or whatever the page's style has
};

/// The column with its text escaped; what isn't left-aligned is of the class "number".
HtmlColumn html_column(const TableColumn& column);

/// The columns as a table, in a box of the class "scroll", in which it scrolls where it is wider than the page, and of
/// "long" where it has many rows; `label` says to readers of
/// screens what it is. The first column names the rows.
std::string html_table(const std::vector<HtmlColumn>& columns, std::string_view label);

}  // namespace dptrain
