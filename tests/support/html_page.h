#pragma once

#include <string>
#include <vector>

namespace dptrain::testing {

/// What is wrong with a page or a piece of HTML, a sentence each: tags that aren't balanced, attributes without quotes
/// or twice, characters that aren't escaped, ids that are there twice, references to ids that aren't there, and
/// whatever would load or run something.
std::vector<std::string> html_mistakes(const std::string& page);

/// The text of it that is shown, without tags, escapes resolved.
std::string shown_text(const std::string& page);

/// How often `words` are in it.
size_t count_of(const std::string& page, const std::string& words);

}  // namespace dptrain::testing
