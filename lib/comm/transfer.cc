#include "comm/transfer.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace dptrain {
namespace {

/// Small enough that MPI sends a part over TCP at once (Open MPI's btl_tcp_eager_limit is 64 KiB with its own header).
/// For a larger part both ends first tell each other that they are ready, behind everything on its way. Over 1 Gbit/s,
/// parts of a MiB took twice as long as whole messages, and parts of this size took less.
constexpr int64_t kPartBytes = 60 * 1024;
/// How many parts from a process are expected at a time. MPI searches all of them for each arrival.
constexpr size_t kExpectedParts = 256;
/// Bytes of a transfer sent ahead to a process that isn't known to have begun it. Enough to keep a wire busy until the
/// process's header can have come. Little enough not to delay other transfers on the wire much.
constexpr int64_t kAheadBytes = 4 * kPartBytes;

/// Calls act(data, bytes) for each part of a message; there is at least one. Both ends cut the message the same way.
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
  for (const ExchangeMessage& message : transfer_.messages) {
    Peer& peer = peers_[message.process];
    for_parts(message, [&](std::byte* data, int64_t bytes) {
      const ExchangeMessage part{.sends = message.sends, .process = message.process, .data = data, .bytes = bytes};
      if (message.sends)
        unsent_.push_back(part);
      else
        peer.unexpected.push_back(part);
    });
  }
  send_headers();
  for (auto& [process, peer] : peers_) expect_more(process, peer);
}

void TransferUnderWay::send_headers() {
  for (const int from : transfer_.header_from) {
    Peer& peer = peers_[from];
    peer.header.assign(transfer_.header.size(), '\0');
    peer.received_header = wire_.start_receive(
        std::as_writable_bytes(std::span(peer.header.data(), peer.header.size())), from, transfer_.received_header_tag);
  }
  for (const int to : transfer_.header_to)
    sent_headers_.push_back(
        wire_.start_send(std::as_bytes(std::span<const char>(transfer_.header)), to, transfer_.sent_header_tag));
}

void TransferUnderWay::expect_more(int process, Peer& peer) {
  while (!peer.unexpected.empty() && (transfer_.shares_tag || peer.expected.size() < kExpectedParts)) {
    const ExchangeMessage& part = peer.unexpected.front();
    const std::span<std::byte> bytes(static_cast<std::byte*>(part.data), static_cast<size_t>(part.bytes));
    peer.expected.push_back(wire_.start_receive(bytes, process, transfer_.tag));
    peer.unexpected.pop_front();
  }
}

bool TransferUnderWay::may_send(const ExchangeMessage& part) {
  const Peer& peer = peers_.at(part.process);
  return peer.agrees ? window_.is_open(part.process) : peer.ahead_bytes < kAheadBytes;
}

bool TransferUnderWay::send_on(HeldTags& held) {
  bool sends = false;
  std::erase_if(unsent_, [&](const ExchangeMessage& part) {
    const std::pair place(part.process, transfer_.tag);
    if (held.contains(place)) return false;
    if (!may_send(part)) {
      // Parts with the same tag are only told apart by their order.
      held.insert(place);
      return false;
    }
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(part.data), static_cast<size_t>(part.bytes));
    Peer& peer = peers_.at(part.process);
    sent_.push_back({.process = part.process,
                     .bytes = part.bytes,
                     .is_ahead = !peer.agrees,
                     .message = wire_.start_send(bytes, part.process, transfer_.tag)});
    if (peer.agrees)
      window_.add(part.process, part.bytes);
    else
      peer.ahead_bytes += part.bytes;
    return sends = true;
  });
  return sends;
}

bool TransferUnderWay::see_headers() {
  bool all = true;
  for (const int from : transfer_.header_from) {
    Peer& peer = peers_.at(from);
    if (peer.agrees) continue;
    const bool has_come = peer.received_header->is_done();
    if (has_come) {
      heard_(from);
      const auto failure = transfer_.check(from, peer.header);
      peer.agrees = !failure;
      // Check in this order, so that the same difference is reported whichever header came first.
      if (failure && all) throw Error(failure->code, failure->sentence);
    }
    all = all && peer.agrees;
  }
  return all;
}

bool TransferUnderWay::is_done() {
  std::erase_if(sent_, [&](const Sent& part) {
    if (!part.message->is_done()) return false;
    if (part.is_ahead)
      peers_.at(part.process).ahead_bytes -= part.bytes;
    else
      window_.remove(part.process, part.bytes);
    return true;
  });
  std::erase_if(sent_headers_, [](const auto& message) { return message->is_done(); });
  const bool all_agree = see_headers();
  bool all_received = all_agree;
  for (auto& [process, peer] : peers_) {
    // A process that sends no header may be one that the others' headers show to be wrong.
    const bool may_look = peer.received_header ? peer.agrees : all_agree;
    while (may_look && !peer.expected.empty() && peer.expected.front()->is_done()) {
      heard_(process);
      peer.expected.pop_front();
      expect_more(process, peer);
    }
    all_received = all_received && peer.expected.empty();
  }
  return all_received && unsent_.empty() && sent_.empty() && sent_headers_.empty();
}

JobFailure TransferUnderWay::overdue() const {
  std::vector<int> missing;
  const auto add_where = [&](const auto& is_missing) {
    if (!missing.empty()) return;
    for (const auto& [process, peer] : peers_)
      if (is_missing(peer)) missing.push_back(process);
  };
  add_where([](const Peer& peer) { return peer.received_header && !peer.received_header->is_done(); });
  add_where([](const Peer& peer) { return !peer.expected.empty() && !peer.expected.front()->is_done(); });
  if (missing.empty())
    for (const ExchangeMessage& message : transfer_.messages)
      if (message.sends) missing.push_back(message.process);
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return transfer_.overdue(missing);
}

}  // namespace dptrain
