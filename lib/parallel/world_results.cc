#include "parallel/world_results.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace dptrain::parallel {
namespace {

/// Results as numbers: of each its samples and the number of its outputs, of each output hits, rows counted, and
/// losses.
std::vector<double> packed(const std::vector<StepResults>& results) {
  std::vector<double> numbers;
  const auto add = [&](int64_t number) { numbers.push_back(static_cast<double>(number)); };
  for (const StepResults& result : results) {
    add(result.samples);
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

std::vector<std::vector<StepResults>> gather_results(Communicator& communicator, const std::vector<StepResults>& own) {
  std::vector<double> numbers = packed(own);
  const std::vector<double> sizes = gather_values(communicator, static_cast<double>(numbers.size()));
  std::vector<double> all;
  double total = 0;
  for (const double size : sizes) total += size;
  if (communicator.rank() == 0) all.resize(static_cast<size_t>(total));
  communicator.gather(buffer_of(numbers), buffer_of(all), 0);
  std::vector<std::vector<StepResults>> by_rank;
  if (communicator.rank() != 0) return by_rank;
  std::span<const double> left = all;
  for (const double size : sizes) {
    by_rank.push_back(unpacked(left.first(static_cast<size_t>(size))));
    left = left.subspan(static_cast<size_t>(size));
  }
  return by_rank;
}

std::vector<RunningValues> gather_running_values(Communicator& communicator, const RunningValues& own) {
  std::vector<float> flat;
  for (const auto& tensor : own) flat.insert(flat.end(), tensor.begin(), tensor.end());
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<float> all(flat.size() * ranks);
  communicator.all_gather(buffer_of(flat), buffer_of(all));
  std::vector<RunningValues> by_rank(ranks, own);
  auto from = all.begin();
  for (RunningValues& values : by_rank)
    for (auto& tensor : values) {
      const auto end = from + static_cast<std::ptrdiff_t>(tensor.size());
      std::copy(from, end, tensor.begin());
      from = end;
    }
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
