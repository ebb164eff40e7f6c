#include "comm/mpi_wire.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.h"

namespace dptrain {
namespace {

/// A number of bytes in MPI's form: a type and a count of type `int`.
class MpiBytes {
 public:
  MpiBytes(int64_t bytes, int largest_part) {
    if (bytes <= largest_part) {
      count_ = static_cast<int>(bytes);
      return;
    }
    // One element of a type that contains all parts. The message stays one, so messages keep their order.
    const int64_t parts = bytes / largest_part;
    const std::array<int, 2> counts = {static_cast<int>(parts), static_cast<int>(bytes % largest_part)};
    const std::array<MPI_Aint, 2> offsets = {0, static_cast<MPI_Aint>(parts * largest_part)};
    MPI_Datatype part = MPI_DATATYPE_NULL;
    require(MPI_Type_contiguous(largest_part, MPI_BYTE, &part));
    const std::array<MPI_Datatype, 2> types = {part, MPI_BYTE};
    require(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &type_));
    require(MPI_Type_free(&part));
    require(MPI_Type_commit(&type_));
    count_ = 1;
  }
  /// MPI keeps the type as long as a message needs it.
  ~MpiBytes() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  MpiBytes(const MpiBytes&) = delete;
  MpiBytes& operator=(const MpiBytes&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  static void require(int result) {
    DPTRAIN_CHECK(result == MPI_SUCCESS, "MPI does not make a type of bytes: {}", mpi_error_text(result));
  }

  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

/// The communicator of a wire and of its messages. The last user frees it.
class MpiWireState {
 public:
  explicit MpiWireState(const MpiWireOptions& options) : options_(options) {}
  ~MpiWireState() {
    // A message that was given up may still use the communicator. The process is then about to end.
    if (under_way_ == 0) MPI_Comm_free(&options_.comm);
  }
  MpiWireState(const MpiWireState&) = delete;
  MpiWireState& operator=(const MpiWireState&) = delete;

  const MpiWireOptions& options() const { return options_; }
  void begin_message() { ++under_way_; }
  void end_message() { --under_way_; }

 private:
  MpiWireOptions options_;
  int64_t under_way_ = 0;
};

struct MpiTransfer {
  bool sends = false;
  int64_t bytes = 0;
  int peer = 0;
  int tag = 0;
};

class MpiMessage final : public WireMessage {
 public:
  /// Starts the message, from or to `data`.
  MpiMessage(std::shared_ptr<MpiWireState> state, const MpiTransfer& transfer, std::byte* data)
      : state_(std::move(state)), transfer_(transfer) {
    const MpiWireOptions& wire = state_->options();
    DPTRAIN_CHECK(transfer.peer >= 0 && transfer.peer < static_cast<int>(wire.processes->size()),
                  "a message of a wire with {} processes names process {}", wire.processes->size(), transfer.peer);
    DPTRAIN_CHECK(transfer.tag >= 0 && transfer.tag <= wire.largest_tag, "a message's tag is {}, the largest is {}",
                  transfer.tag, wire.largest_tag);
    const MpiBytes bytes(transfer.bytes, wire.largest_part_bytes);
    check(transfer.sends
              ? MPI_Isend(data, bytes.count(), bytes.type(), transfer.peer, transfer.tag, wire.comm, &request_)
              : MPI_Irecv(data, bytes.count(), bytes.type(), transfer.peer, transfer.tag, wire.comm, &request_));
    state_->begin_message();
  }

  bool is_done() override {
    if (done_) return true;
    int ended = 0;
    MPI_Status status;
    check(MPI_Test(&request_, &ended, &status));
    if (ended == 0) return false;
    if (!transfer_.sends) {
      MPI_Count came = 0;
      check(MPI_Get_elements_x(&status, MPI_BYTE, &came));
      transfer_.bytes = came;
    }
    done_ = true;
    state_->end_message();
    return true;
  }
  int64_t bytes() const override { return transfer_.bytes; }

 private:
  void check(int result) const {
    if (result == MPI_SUCCESS) return;
    int kind = MPI_ERR_OTHER;
    MPI_Error_class(result, &kind);
    const std::string peer = name_of_process(*state_->options().processes, transfer_.peer);
    if (kind == MPI_ERR_TRUNCATE)
      throw Error(
          ExitCode::ranks_disagree,
          Mistake{.where = fmt::format("a message with tag {} from {}", transfer_.tag, peer),
                  .expected = fmt::format("expected {} bytes at most", transfer_.bytes),
                  .got = "more",
                  .advice = "the processes do different things; start all of them with the same program and config"});
    throw LostMessage(fmt::format("MPI could not carry {} bytes with tag {} {} {}: {}", transfer_.bytes, transfer_.tag,
                                  transfer_.sends ? "to" : "from", peer, mpi_error_text(result)));
  }

  std::shared_ptr<MpiWireState> state_;
  MpiTransfer transfer_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool done_ = false;
};

class MpiWire final : public ProcessWire {
 public:
  explicit MpiWire(const MpiWireOptions& options) : state_(std::make_shared<MpiWireState>(options)) {}

  int process() const override { return state_->options().process; }
  int processes() const override { return static_cast<int>(state_->options().processes->size()); }
  int largest_tag() const override { return state_->options().largest_tag; }
  std::unique_ptr<WireMessage> start_send(std::span<const std::byte> bytes, int to, int tag) override {
    // MPI doesn't change the sent bytes. One message class serves both directions, so its pointer isn't const.
    return start({.sends = true, .bytes = static_cast<int64_t>(bytes.size()), .peer = to, .tag = tag},
                 const_cast<std::byte*>(bytes.data()));
  }
  std::unique_ptr<WireMessage> start_receive(std::span<std::byte> bytes, int from, int tag) override {
    return start({.sends = false, .bytes = static_cast<int64_t>(bytes.size()), .peer = from, .tag = tag}, bytes.data());
  }

 private:
  std::unique_ptr<WireMessage> start(const MpiTransfer& transfer, std::byte* data) {
    return std::make_unique<MpiMessage>(state_, transfer, data);
  }

  std::shared_ptr<MpiWireState> state_;
};

}  // namespace

std::shared_ptr<ProcessWire> make_mpi_wire(const MpiWireOptions& options) { return std::make_shared<MpiWire>(options); }

std::string name_of_process(const std::vector<JobProcess>& processes, int process) {
  const JobProcess& one = processes[static_cast<size_t>(process)];
  return fmt::format("process {} (host {}, pid {})", process, one.host, one.pid);
}

std::string mpi_error_text(int error) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  if (MPI_Error_string(error, text.data(), &length) != MPI_SUCCESS) return fmt::format("error {}", error);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace dptrain
