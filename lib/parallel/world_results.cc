#include "parallel/world_results.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "parallel/text_buffer.h"

namespace dptrain::parallel {
namespace {

/// Results as numbers. For each result: its samples; 1 and the squares if they were measured, else 0; its number of
/// outputs; for each output: hits, counted rows, number of losses, losses.
std::vector<double> packed(const std::vector<StepResults>& results) {
  std::vector<double> numbers;
  const auto add = [&](int64_t number) { numbers.push_back(static_cast<double>(number)); };
  for (const StepResults& result : results) {
    add(result.samples);
    add(result.squares ? 1 : 0);
    if (const auto& squares = result.squares)
      numbers.insert(numbers.end(), {squares->own, squares->summed, squares->loss_factor});
    add(static_cast<int64_t>(result.outputs.size()));
    for (const OutputResults& output : result.outputs) {
      add(output.correct);
      add(output.counted);
      add(static_cast<int64_t>(output.losses.size()));
      numbers.insert(numbers.end(), output.losses.begin(), output.losses.end());
    }
  }
  return numbers;
}

std::vector<StepResults> unpacked(std::span<const double> numbers) {
  size_t at = 0;
  const auto next = [&] { return static_cast<int64_t>(numbers[at++]); };
  std::vector<StepResults> results;
  while (at < numbers.size()) {
    StepResults result{.outputs = {}, .samples = next()};
    if (next() != 0) {
      result.squares = {.own = numbers[at], .summed = numbers[at + 1], .loss_factor = numbers[at + 2]};
      at += 3;
    }
    result.outputs.resize(static_cast<size_t>(next()));
    for (OutputResults& output : result.outputs) {
      output.correct = next();
      output.counted = next();
      const auto losses = static_cast<size_t>(next());
      output.losses.assign(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                           numbers.begin() + static_cast<std::ptrdiff_t>(at + losses));
      at += losses;
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

std::vector<std::vector<double>> gather_numbers(Communicator& communicator, std::vector<double> own) {
  const std::vector<double> sizes = gather_values(communicator, static_cast<double>(own.size()));
  std::vector<double> all;
  double total = 0;
  for (const double size : sizes) total += size;
  if (communicator.rank() == 0) all.resize(static_cast<size_t>(total));
  communicator.gather(buffer_of(own), buffer_of(all), 0);
  std::vector<std::vector<double>> by_rank;
  if (communicator.rank() != 0) return by_rank;
  auto from = all.begin();
  for (const double size : sizes) {
    const auto end = from + static_cast<std::ptrdiff_t>(size);
    by_rank.emplace_back(from, end);
    from = end;
  }
  return by_rank;
}

std::vector<std::vector<StepResults>> gather_results(Communicator& communicator, const std::vector<StepResults>& own) {
  std::vector<std::vector<StepResults>> by_rank;
  for (const auto& numbers : gather_numbers(communicator, packed(own))) by_rank.push_back(unpacked(numbers));
  return by_rank;
}

std::vector<RunningValues> gather_running_values(Communicator& communicator, const RunningValues& own) {
  // For each tensor: its number of elements, then the elements.
  std::vector<double> numbers;
  for (const auto& tensor : own) {
    numbers.push_back(static_cast<double>(tensor.size()));
    numbers.insert(numbers.end(), tensor.begin(), tensor.end());
  }
  std::vector<RunningValues> by_rank;
  for (const auto& of_rank : gather_numbers(communicator, std::move(numbers))) {
    RunningValues& values = by_rank.emplace_back();
    for (auto at = of_rank.begin(); at != of_rank.end();) {
      const auto begin = at + 1;
      at = begin + static_cast<std::ptrdiff_t>(*at);
      values.emplace_back(begin, at);
    }
  }
  return by_rank;
}

std::vector<std::string> exchange_texts(Communicator& communicator, std::string own) {
  const std::vector<double> sizes = gather_values(communicator, static_cast<double>(own.size()));
  // Every rank's text gets as much room as the longest.
  const auto longest = static_cast<size_t>(std::ranges::max(sizes));
  own.resize(longest);
  std::string all(longest * sizes.size(), '\0');
  communicator.all_gather(text_buffer(own), text_buffer(all));
  std::vector<std::string> by_rank;
  for (size_t r = 0; r < sizes.size(); ++r) by_rank.push_back(all.substr(r * longest, static_cast<size_t>(sizes[r])));
  return by_rank;
}

std::vector<double> gather_values(Communicator& communicator, double own) {
  std::vector<double> value = {own}, all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(buffer_of(value), buffer_of(all));
  return all;
}

bool any_rank(Communicator& communicator, bool own) {
  const std::vector<double> all = gather_values(communicator, own ? 1 : 0);
  return std::ranges::any_of(all, [](double value) { return value != 0; });
}

}  // namespace dptrain::parallel
