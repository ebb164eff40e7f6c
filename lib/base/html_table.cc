#include "base/html_table.h"

#include <fmt/format.h>

#include "base/html_text.h"

namespace dptrain {
namespace {

/// A table with more rows gets a limited height.
constexpr size_t kLongTable = 30;

std::string class_attribute(std::string_view look) { return look.empty() ? "" : fmt::format(" class=\"{}\"", look); }

}  // namespace

HtmlColumn html_column(const TableColumn& column) {
  HtmlColumn converted{.header = column.header, .cells = {}, .look = column.left_aligned ? "" : "number"};
  for (const std::string& cell : column.cells) converted.cells.push_back(html_text(cell));
  return converted;
}

std::string html_table(const std::vector<HtmlColumn>& columns, std::string_view label) {
  const size_t rows = columns.front().cells.size();
  std::string table =
      fmt::format("<div class=\"scroll{}\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table>\n<thead>\n<tr>",
                  rows > kLongTable ? " long" : "", html_text(label));
  for (const HtmlColumn& column : columns)
    table += fmt::format("<th scope=\"col\"{}>{}</th>", class_attribute(column.look), html_text(column.header));
  table += "</tr>\n</thead>\n<tbody>\n";
  for (size_t row = 0; row < rows; ++row) {
    table += "<tr>";
    for (const HtmlColumn& column : columns) {
      const bool names_row = &column == &columns.front();
      table += fmt::format("<{}{}>{}</{}>", names_row ? "th scope=\"row\"" : "td", class_attribute(column.look),
                           column.cells[row], names_row ? "th" : "td");
    }
    table += "</tr>\n";
  }
  return table + "</tbody>\n</table>\n</div>\n";
}

}  // namespace dptrain
