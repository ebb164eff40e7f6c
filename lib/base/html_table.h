#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text_table.h"

namespace dptrain {

/// A column of an HTML table.
struct HtmlColumn {
  std::string header;
  std::vector<std::string> cells;  ///< HTML, one per row; all columns have the same number
  std::string_view look = "";      ///< the class of its cells: "number", or any class of the page's style
};

/// Converts a text column and escapes its text. A column that isn't left-aligned gets the class "number".
HtmlColumn html_column(const TableColumn& column);

/// Makes a table of the columns. It is in a box of the class "scroll", where it scrolls if it is wider than the page. A
/// table with many rows also gets the class "long". `label` describes the table to screen readers. The first column
/// names the rows.
std::string html_table(const std::vector<HtmlColumn>& columns, std::string_view label);

}  // namespace dptrain
