#include "comm/process_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/thread_communicator.h"

namespace dptrain {
namespace {

CommBuffer bytes_of(std::string& text) {
  return {.data = text.data(), .elements = static_cast<int64_t>(text.size()), .dtype = DType::u8};
}

std::vector<int> all_of(const ProcessExchange& exchange) {
  std::vector<int> all(static_cast<size_t>(exchange.processes()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

ProcessGroup::ProcessGroup(ProcessExchange& exchange, double timeout_s)
    : ProcessGroup(exchange, all_of(exchange), timeout_s) {}

ProcessGroup::ProcessGroup(ProcessExchange& exchange, const std::vector<int>& processes, double timeout_s)
    : exchange_(exchange) {
  const WorldShape shape(std::vector<int>(processes.size(), 1));
  communicator_ = std::move(
      make_process_communicators({.exchange = &exchange, .processes = processes, .shape = shape}, timeout_s).front());
}

std::vector<int64_t> ProcessGroup::values(int64_t own) {
  std::vector<int64_t> values = {own}, all(static_cast<size_t>(processes()));
  communicator_->all_gather(buffer_of(values), buffer_of(all));
  return all;
}

int ProcessGroup::largest(int value) { return static_cast<int>(std::ranges::max(values(value))); }

std::vector<std::string> ProcessGroup::gather(const std::string& own) {
  const std::vector<int64_t> sizes = values(static_cast<int64_t>(own.size()));
  std::string part = own, whole;
  if (is_main()) whole.resize(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  communicator_->gather(bytes_of(part), bytes_of(whole), 0);
  std::vector<std::string> all;
  for (size_t begin = 0; is_main() && all.size() < sizes.size();) {
    const auto length = static_cast<size_t>(sizes[all.size()]);
    all.push_back(whole.substr(begin, length));
    begin += length;
  }
  return all;
}

std::vector<std::string> ProcessGroup::gather_everywhere(const std::string& own) {
  std::vector<std::string> all = gather(own);
  all.resize(static_cast<size_t>(processes()));
  for (std::string& text : all) text = from_main(text);
  return all;
}

std::string ProcessGroup::from_main(const std::string& own) {
  std::vector<int64_t> size = {static_cast<int64_t>(own.size())};
  communicator_->broadcast(buffer_of(size), 0);
  std::string text = own;
  text.resize(static_cast<size_t>(size[0]));
  communicator_->broadcast(bytes_of(text), 0);
  return text;
}

}  // namespace dptrain
