#include "parallel/stage_facts.h"

#include <sstream>

namespace dptrain::parallel {
namespace {

// The first character of each line of the text.
constexpr char kShares = 's', kParameter = 'p', kBorrowed = 'b';

}  // namespace

StageFacts StageFacts::of(const Replica& part) {
  StageFacts facts{.shares_statistics = part.shares_statistics()};
  for (const Parameter* parameter : part.model().parameters()) facts.parameters.push_back(parameter->name());
  for (const Parameter* parameter : part.model().borrowed_parameters()) facts.borrowed.push_back(parameter->name());
  return facts;
}

std::string StageFacts::text() const {
  std::string text;
  const auto add = [&text](char what, const std::string& name) { (text += what) += name + '\n'; };
  if (shares_statistics) add(kShares, {});
  for (const std::string& name : parameters) add(kParameter, name);
  for (const std::string& name : borrowed) add(kBorrowed, name);
  return text;
}

StageFacts StageFacts::of_text(const std::string& text) {
  StageFacts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.front() == kShares)
      facts.shares_statistics = true;
    else
      (line.front() == kParameter ? facts.parameters : facts.borrowed).push_back(line.substr(1));
  }
  return facts;
}

}  // namespace dptrain::parallel
