#include "support/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

namespace dptrain::testing {
namespace {

/// Elements without an end tag.
const std::set<std::string> kVoid = {"meta", "br"};
/// Elements and attributes that load or run something.
const std::set<std::string> kLoading = {"script", "link", "img", "iframe", "object", "embed", "base", "form"};
const std::set<std::string> kReferring = {"src", "srcset", "xlink:href", "action", "data"};

class HtmlReader {
 public:
  explicit HtmlReader(const std::string& page) : page_(page) {}

  std::vector<std::string> mistakes() {
    size_t at = 0;
    while (at < page_.size()) {
      const size_t tag = std::min(page_.find('<', at), page_.size());
      read_text(page_.substr(at, tag - at));
      if (tag == page_.size()) break;
      const size_t end = page_.find('>', tag);
      if (end == std::string::npos) {
        mistakes_.push_back("a tag without an end");
        break;
      }
      read_tag(page_.substr(tag + 1, end - tag - 1));
      at = end + 1;
      if (!open_.empty() && open_.back() == "style") at = page_.find("</style>", at);
    }
    for (const std::string& name : open_) mistakes_.push_back(fmt::format("<{}> isn't closed", name));
    for (const std::string& id : referred_)
      if (!ids_.contains(id)) mistakes_.push_back(fmt::format("nothing has the id {}", id));
    return mistakes_;
  }

 private:
  void read_text(const std::string& text) {
    static const std::regex kStray("&(?!(amp|lt|gt|quot|#39);)|>");
    if (std::regex_search(text, kStray)) mistakes_.push_back(fmt::format("not escaped: {}", text.substr(0, 80)));
  }

  void read_tag(const std::string& tag) {
    static const std::regex kTag("(/?)([a-zA-Z][a-zA-Z0-9]*)((?: [a-zA-Z:-]+=\"[^\"]*\")*)(/?)");
    std::smatch parts;
    if (tag == "!DOCTYPE html") return;
    if (!std::regex_match(tag, parts, kTag)) {
      mistakes_.push_back(fmt::format("no tag: <{}>", tag.substr(0, 80)));
      return;
    }
    const std::string name = parts[2];
    if (kLoading.contains(name)) mistakes_.push_back(fmt::format("<{}> loads or runs something", name));
    read_attributes(parts[3]);
    if (parts[1].length() > 0) {
      if (open_.empty() || open_.back() != name)
        mistakes_.push_back(fmt::format("</{}> in <{}>", name, open_.empty() ? "" : open_.back()));
      else
        open_.pop_back();
    } else if (parts[4].length() == 0 && !kVoid.contains(name)) {
      open_.push_back(name);
    }
  }

  void read_attributes(const std::string& attributes) {
    static const std::regex kAttribute(" ([a-zA-Z:-]+)=\"([^\"]*)\"");
    std::set<std::string> names;
    for (std::sregex_iterator found(attributes.begin(), attributes.end(), kAttribute), end; found != end; ++found) {
      const std::string name = (*found)[1], value = (*found)[2];
      if (!names.insert(name).second) mistakes_.push_back(fmt::format("{} twice", name));
      if (kReferring.contains(name) || name.starts_with("on"))
        mistakes_.push_back(fmt::format("{} loads or runs something", name));
      if (name == "id" && !ids_.insert(value).second) mistakes_.push_back(fmt::format("two have the id {}", value));
      if (name == "href" && !value.starts_with("#")) mistakes_.push_back(fmt::format("a link to {}", value));
      if (name == "href") referred_.insert(value.substr(1));
      if (value.starts_with("url(#")) referred_.insert(value.substr(5, value.size() - 6));
      read_text(value);
    }
  }

  const std::string& page_;
  std::vector<std::string> mistakes_, open_;
  std::set<std::string> ids_, referred_;
};

}  // namespace

std::vector<std::string> html_mistakes(const std::string& page) { return HtmlReader(page).mistakes(); }

std::string shown_text(const std::string& page) {
  std::string text = std::regex_replace(page, std::regex("<[^>]*>"), "");
  for (const auto& [escape, character] :
       {std::pair("&lt;", "<"), {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}})
    for (size_t at = 0; (at = text.find(escape, at)) != std::string::npos; ++at)
      text.replace(at, std::string(escape).size(), character);
  return text;
}

size_t count_of(const std::string& page, const std::string& words) {
  size_t count = 0;
  for (size_t at = 0; (at = page.find(words, at)) != std::string::npos; at += words.size()) ++count;
  return count;
}

}  // namespace dptrain::testing
