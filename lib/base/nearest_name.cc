#include "base/nearest_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/lower_case.h"

namespace dptrain {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replace = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({replace, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

namespace {

/// The initials of a name: "learning_rate" -> "lr"; "" for a single word.
std::string initials(std::string_view name) {
  std::string letters;
  for (size_t begin = 0; begin < name.size(); begin = std::min(name.find('_', begin), name.size() - 1) + 1)
    letters += name[begin];
  return letters.size() > 1 ? letters : "";
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  constexpr size_t kLongestName = 64;  // the distance is quadratic, and a name is typed by hand
  if (name.size() > kLongestName) return {};
  int best = std::min(2, std::max(1, static_cast<int>(name.size()) / 3)) + 1;
  const std::string typed = lower_case(name);
  std::string nearest;
  for (const auto& candidate : candidates) {
    if (const int distance = edit_distance(typed, lower_case(candidate)); distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  // "resnet" more likely begins "resnet18" than misspells "lenet".
  constexpr size_t kShortestBeginning = 4;
  if (best > 1 && typed.size() >= kShortestBeginning) {
    const auto begins = std::ranges::find_if(
        candidates, [&](const std::string& candidate) { return lower_case(candidate).starts_with(typed); });
    if (begins != candidates.end()) return *begins;
  }
  if (!nearest.empty() || typed.empty()) return nearest;
  const auto abbreviated = std::ranges::find(candidates, typed, initials);
  return abbreviated != candidates.end() ? *abbreviated : "";
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  if (const auto near = nearest_name(name, candidates); !near.empty()) return fmt::format("did you mean '{}'?", near);
  return fmt::format("choose one of: {}", fmt::join(candidates, ", "));
}

}  // namespace dptrain
