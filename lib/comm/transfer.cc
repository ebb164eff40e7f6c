#include "comm/transfer.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace dptrain {
namespace {

/// Small enough that MPI sends a part over TCP at once (Open MPI's btl_tcp_eager_limit is 64 KiB with its own header).
/// Of a larger one both ends first tell each other that they are ready, behind whatever is on its way: over 1 Gbit/s
/// parts of a MiB took twice as long as whole messages, and these less than them.
constexpr int64_t kPartBytes = 60 * 1024;
/// Parts that are expected at a time: MPI looks through all of them for what has come.
constexpr size_t kExpectedParts = 256;

/// Calls act(data, bytes) with each part of a message, at least one; both of its ends cut it alike.
template <class Act>
void for_parts(const ExchangeMessage& message, const Act& act) {
  int64_t begin = 0;
  do {
    const int64_t bytes = std::min(kPartBytes, message.bytes - begin);
    act(static_cast<std::byte*>(message.data) + begin, bytes);
    begin += bytes;
  } while (begin < message.bytes);
}

}  // namespace

TransferUnderWay::TransferUnderWay(ProcessWire& wire, SendWindow& window, Transfer transfer,
                                   std::function<void(int)> heard)
    : wire_(wire),
      window_(window),
      transfer_(std::move(transfer)),
      heard_(std::move(heard)),
      deadline_(deadline_in(transfer_.timeout_s)) {
  const std::vector<int>& senders = transfer_.header_from;
  headers_.assign(senders.size(), std::string(transfer_.header.size(), '\0'));
  for (size_t i = 0; i < senders.size(); ++i)
    received_headers_.push_back(
        wire.start_receive(std::as_writable_bytes(std::span(headers_[i].data(), headers_[i].size())), senders[i],
                           transfer_.received_header_tag));
  for (const int to : transfer_.header_to)
    sent_headers_.push_back(
        wire.start_send(std::as_bytes(std::span<const char>(transfer_.header)), to, transfer_.sent_header_tag));
  // Parts of one process come in their order, and are numbered in it.
  std::map<int, int64_t> numbers;
  std::vector<std::pair<int64_t, ExchangeMessage>> received;
  for (const ExchangeMessage& message : transfer_.messages)
    for_parts(message, [&](std::byte* data, int64_t bytes) {
      const ExchangeMessage part{.sends = message.sends, .process = message.process, .data = data, .bytes = bytes};
      if (message.sends)
        unsent_.push_back(part);
      else
        received.emplace_back(numbers[part.process]++, part);
    });
  std::ranges::stable_sort(received, {}, [](const auto& part) { return part.first; });
  for (const auto& [number, part] : received) unexpected_.push_back(part);
  expect_more();
}

void TransferUnderWay::expect_more() {
  while (!unexpected_.empty() && (transfer_.shares_tag || expected_.size() < kExpectedParts)) {
    const ExchangeMessage& part = unexpected_.front();
    const std::span<std::byte> bytes(static_cast<std::byte*>(part.data), static_cast<size_t>(part.bytes));
    expected_.push_back({.process = part.process, .message = wire_.start_receive(bytes, part.process, transfer_.tag)});
    unexpected_.pop_front();
  }
}

bool TransferUnderWay::send_on() {
  bool sends = false;
  std::erase_if(unsent_, [&](const ExchangeMessage& part) {
    if (!window_.is_open(part.process)) return false;
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(part.data), static_cast<size_t>(part.bytes));
    sent_.push_back({.process = part.process,
                     .bytes = part.bytes,
                     .message = wire_.start_send(bytes, part.process, transfer_.tag)});
    window_.add(part.process, part.bytes);
    return sends = true;
  });
  return sends;
}

bool TransferUnderWay::is_done() {
  std::erase_if(sent_, [&](const Sent& part) {
    if (!part.message->is_done()) return false;
    window_.remove(part.process, part.bytes);
    return true;
  });
  std::erase_if(sent_headers_, [](const auto& message) { return message->is_done(); });
  for (; headers_seen_ < received_headers_.size(); ++headers_seen_) {
    if (!received_headers_[headers_seen_]->is_done()) return false;
    const int from = transfer_.header_from[headers_seen_];
    heard_(from);
    if (const auto failure = transfer_.check(from, headers_[headers_seen_]))
      throw Error(failure->code, failure->sentence);
  }
  while (!expected_.empty()) {
    if (!expected_.front().message->is_done()) return false;
    heard_(expected_.front().process);
    expected_.pop_front();
    expect_more();
  }
  return unsent_.empty() && sent_.empty() && sent_headers_.empty();
}

JobFailure TransferUnderWay::overdue() const {
  std::vector<int> missing;
  for (size_t i = headers_seen_; i < received_headers_.size(); ++i) {
    if (!received_headers_[i]->is_done()) missing.push_back(transfer_.header_from[i]);
  }
  if (missing.empty())
    for (const Received& part : expected_)
      if (!part.message->is_done()) missing.push_back(part.process);
  if (missing.empty())
    for (const ExchangeMessage& message : transfer_.messages)
      if (message.sends) missing.push_back(message.process);
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return transfer_.overdue(missing);
}

}  // namespace dptrain
