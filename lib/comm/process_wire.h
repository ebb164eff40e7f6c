#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace dptrain {

/// A message that the wire could not carry. The other process may have died, or its network may be gone.
class LostMessage final : public Error {
 public:
  explicit LostMessage(const std::string& sentence) : Error(ExitCode::peer_lost, sentence) {}
};

/// A message between processes that was started. Destroying it before it is done gives it up. Its job must then end
/// (see job.h), and until the process ends the wire may still read or write the bytes.
class WireMessage {
 public:
  virtual ~WireMessage() = default;
  /// Whether the message is done, so that its bytes may be used again. Asking is what moves all messages of the wire
  /// on. Doesn't wait for other processes. Throws LostMessage, naming the other process, if the message can't be
  /// carried. Throws an error with exit code 76 if more bytes came than were expected.
  ///
  /// If a process of another host has died, MPI may hold the thread in here. Open MPI 4.1 does so until mpirun answers,
  /// and mpirun first sleeps while it waits for the others to end. So a watch over the processes must be able to leave
  /// the job from a thread that uses no wire.
  virtual bool is_done() = 0;
  /// Bytes sent or received, once the message is done. Fewer than expected may come.
  virtual int64_t bytes() const = 0;
};

/// Messages between the processes of a job, separate from those of all its other wires. Used by one thread at a time.
///
/// Messages from one process to another with the same tag arrive in the order in which both ends started them.
class ProcessWire {
 public:
  virtual ~ProcessWire() = default;
  virtual int process() const = 0;    ///< this process's number, from 0
  virtual int processes() const = 0;  ///< in the job
  virtual int largest_tag() const = 0;
  /// Start a message. Starting waits for nobody, but may throw LostMessage. `bytes` must not be touched until the
  /// message is done.
  virtual std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) = 0;
  virtual std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) = 0;
};

}  // namespace dptrain
