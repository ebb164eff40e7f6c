#pragma once

#include <string>
#include <vector>

namespace dptrain::testing {

/// The mistakes in a page or a piece of HTML, one sentence each: unbalanced tags, attributes without quotes or given
/// twice, unescaped characters, duplicate ids, references to missing ids, and anything that would load or run
/// something.
std::vector<std::string> html_mistakes(const std::string& page);

/// The text that the page shows: without tags, escapes resolved.
std::string shown_text(const std::string& page);

/// How often `words` occur in the page.
size_t count_of(const std::string& page, const std::string& words);

}  // namespace dptrain::testing
