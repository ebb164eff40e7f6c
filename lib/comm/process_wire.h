#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace dptrain {

/// A message that the wire could not carry, to or from a process that has died, maybe, or whose network is gone.
class LostMessage final : public Error {
 public:
  explicit LostMessage(const std::string& sentence) : Error(ExitCode::peer_lost, sentence) {}
};

/// A message between processes that was started. Ended before it is done it is given up: its job must end (see
/// job.h), and until the process does the wire may still read or write the bytes.
class WireMessage {
 public:
  virtual ~WireMessage() = default;
  /// Whether it is done, so that its bytes may be used again; asking is what moves all messages of the wire on. Waits
  /// for nobody. Throws LostMessage, naming the other process, where it can't be carried, 76 where more bytes came than
  /// were expected.
  ///
  /// Where a process of another host has died, MPI may hold the thread in here: Open MPI 4.1 does until mpirun answers,
  /// which sleeps as long as it gives the others to end. A watch over the processes must be able to leave the job from
  /// a thread that asks no wire.
  virtual bool is_done() = 0;
  /// Once it is done: bytes that came or went; fewer than expected may come.
  virtual int64_t bytes() const = 0;
};

/// Messages between the processes of a job, apart from those of all its other wires. Used by one thread at a time.
///
/// Messages from one process to another with the same tag arrive in the order in which both ends started them.
class ProcessWire {
 public:
  virtual ~ProcessWire() = default;
  virtual int process() const = 0;    ///< this one's number, from 0
  virtual int processes() const = 0;  ///< of the job
  virtual int largest_tag() const = 0;
  /// Starting waits for nobody; may throw LostMessage. `bytes` must be left alone until it is done.
  virtual std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) = 0;
};

}  // namespace dptrain
