#include "base/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>

#include "base/display_width.h"

namespace dptrain {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::string_view kCut = "~";

/// Cuts the text to `width` columns. A mark replaces the end that was cut.
std::string cut(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  return fmt::format("{}{}", display_prefix(text, std::max(width - 1, 0)), kCut);
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// The position of the first character that isn't the same in all texts.
size_t first_difference(const std::vector<std::string>& texts) {
  const std::string& first = texts.front();
  size_t at = first.size();
  for (const std::string& text : texts)
    at = std::min(at, static_cast<size_t>(std::ranges::mismatch(first, text).in1 - first.begin()));
  while (at > 0 && at < first.size() && continues_character(first[at])) --at;
  return at;
}

/// Shortens the cells of a column to `width`. Different cells that would look the same when cut at the end are cut at
/// the beginning instead, a little before they differ.
std::vector<std::string> told_apart(std::vector<std::string> cells, int width) {
  std::map<std::string, std::vector<std::string>> cut_alike;
  for (const std::string& cell : cells)
    if (display_width(cell) > width) cut_alike[cut(cell, width)].push_back(cell);
  for (std::string& cell : cells) {
    if (display_width(cell) <= width) continue;
    const size_t differ = first_difference(cut_alike.at(cut(cell, width)));
    if (differ == cell.size()) continue;  // all are equal, or all others begin with this one
    const std::string_view before = std::string_view(cell).substr(0, differ);
    size_t from = differ;
    while (from > 0 && display_width(before.substr(from - 1)) <= width / 3) --from;
    while (from < differ && continues_character(cell[from])) ++from;
    cell.replace(0, from, kCut);
  }
  return cells;
}

struct Column {
  const TableColumn* source;
  int width;
  std::vector<std::string> cells;

  /// A header or a cell, cut and padded to the width.
  std::string fitted(const std::string& text) const {
    const std::string shown = cut(text, width);
    const std::string filling(static_cast<size_t>(width - display_width(shown)), ' ');
    return source->left_aligned ? shown + filling : filling + shown;
  }
};

Column column_of(const TableColumn& source, int widest) {
  int width = display_width(source.header);
  for (const std::string& cell : source.cells) width = std::max(width, display_width(cell));
  width = std::clamp(width, 1, std::max(widest, 1));
  return {.source = &source, .width = width, .cells = told_apart(source.cells, width)};
}

std::string block_of(std::span<const Column> columns) {
  const auto line = [&](const auto& text_of) {
    std::string text;
    for (const Column& column : columns) {
      if (!text.empty()) text += kGap;
      text += column.fitted(text_of(column));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string block = line([](const Column& column) { return column.source->header; });
  for (size_t row = 0; row < columns.front().source->cells.size(); ++row)
    block += line([row](const Column& column) { return column.cells[row]; });
  return block;
}

/// Escapes characters that would end a Markdown cell.
std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.emplace_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(words.back().size() + 1, text.size()));
  }
  return words;
}

/// Lays out the pieces with spaces between them. `head` begins the first line; later lines are indented by its width.
std::string laid_out(std::string_view head, const std::vector<std::string>& pieces, int width) {
  const int indent = display_width(head);
  std::string lines(head);
  int used = 0;
  for (const std::string& piece : pieces) {
    if (used > 0 && indent + used + 1 + display_width(piece) > width) {
      lines += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = 0;
    }
    if (used > 0) lines += " ";
    lines += piece;
    used += (used > 0 ? 1 : 0) + display_width(piece);
  }
  return lines + "\n";
}

}  // namespace

void add_row(std::vector<TableColumn>& columns, const std::vector<std::string>& cells) {
  for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells.at(i));
}

std::string text_table(const std::vector<TableColumn>& columns, int width) {
  // The first column is repeated in every block. It may be as wide as still leaves room for another column.
  const Column first = column_of(columns.front(), width / 2);
  const int gap = static_cast<int>(kGap.size());
  std::vector<Column> block = {first};
  int used = first.width;
  std::string text;
  for (size_t i = 1; i < columns.size(); ++i) {
    const Column column = column_of(columns[i], width - first.width - gap);
    if (used + gap + column.width > width) {
      text += block_of(block) + "\n";
      block = {first};
      used = first.width;
    }
    block.push_back(column);
    used += gap + column.width;
  }
  return text + block_of(block);
}

std::string markdown_table(const std::vector<TableColumn>& columns) {
  std::string headers = "|", rules = "|";
  for (const TableColumn& column : columns) {
    headers += fmt::format(" {} |", markdown_cell(column.header));
    rules += column.left_aligned ? " :-- |" : " --: |";
  }
  std::string text = headers + "\n" + rules + "\n";
  for (size_t row = 0; row < columns.front().cells.size(); ++row) {
    text += "|";
    for (const TableColumn& column : columns) text += fmt::format(" {} |", markdown_cell(column.cells[row]));
    text += "\n";
  }
  return text;
}

std::string wrapped(std::string_view text, int width) {
  std::string lines;
  do {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    lines += laid_out(line.substr(0, indent), words_of(line.substr(indent)), width);
  } while (!text.empty());
  return lines;
}

std::string wrapped_list(std::string_view head, const std::vector<std::string>& items, int width) {
  const int room = width - display_width(head);
  std::vector<std::string> pieces;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    if (display_width(item) <= room)
      pieces.push_back(item);
    else
      std::ranges::copy(words_of(item), std::back_inserter(pieces));
  }
  return laid_out(head, pieces, width);
}

}  // namespace dptrain
