#include "comm/transfer.h"

#include <algorithm>
#include <span>

namespace dptrain {

TransferUnderWay::TransferUnderWay(ProcessWire& wire, Transfer transfer, std::function<void(int)> heard)
    : transfer_(std::move(transfer)), heard_(std::move(heard)), deadline_(deadline_in(transfer_.timeout_s)) {
  const std::vector<int>& senders = transfer_.header_from;
  headers_.assign(senders.size(), std::string(transfer_.header.size(), '\0'));
  for (size_t i = 0; i < senders.size(); ++i)
    received_headers_.push_back(
        wire.start_receive(std::as_writable_bytes(std::span(headers_[i].data(), headers_[i].size())), senders[i],
                           transfer_.received_header_tag));
  for (const int to : transfer_.header_to)
    sent_.push_back(
        wire.start_send(std::as_bytes(std::span<const char>(transfer_.header)), to, transfer_.sent_header_tag));
  for (const ExchangeMessage& message : transfer_.messages) {
    const std::span<std::byte> bytes(static_cast<std::byte*>(message.data), static_cast<size_t>(message.bytes));
    if (message.sends)
      sent_.push_back(wire.start_send(bytes, message.process, transfer_.tag));
    else
      received_.push_back({&message, wire.start_receive(bytes, message.process, transfer_.tag)});
  }
}

bool TransferUnderWay::is_done() {
  for (; headers_seen_ < received_headers_.size(); ++headers_seen_) {
    if (!received_headers_[headers_seen_]->is_done()) return false;
    const int from = transfer_.header_from[headers_seen_];
    heard_(from);
    if (const auto failure = transfer_.check(from, headers_[headers_seen_]))
      throw Error(failure->code, failure->sentence);
  }
  for (; receives_seen_ < received_.size(); ++receives_seen_) {
    if (!received_[receives_seen_].second->is_done()) return false;
    heard_(received_[receives_seen_].first->process);
  }
  for (; sends_seen_ < sent_.size(); ++sends_seen_)
    if (!sent_[sends_seen_]->is_done()) return false;
  return true;
}

JobFailure TransferUnderWay::overdue() const {
  std::vector<int> missing;
  for (size_t i = headers_seen_; i < received_headers_.size(); ++i) {
    if (!received_headers_[i]->is_done()) missing.push_back(transfer_.header_from[i]);
  }
  if (missing.empty())
    for (const auto& [message, work] : received_)
      if (!work->is_done()) missing.push_back(message->process);
  if (missing.empty())
    for (const ExchangeMessage& message : transfer_.messages)
      if (message.sends) missing.push_back(message.process);
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return transfer_.overdue(missing);
}

}  // namespace dptrain
