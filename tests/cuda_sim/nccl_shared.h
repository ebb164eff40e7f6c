// The state that ranks of several processes of this machine share: a file that all of them map, named by the unique id.
// The file is removed as soon as all ranks have entered. If a process dies before that, the next unique id removes it.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "nccl_call.h"

namespace dptrain::cuda_sim {

inline constexpr int kMostRanks = 64;
// The most bytes of one rank in one call between processes. The file is sparse.
inline constexpr std::size_t kMostBytes = std::size_t{64} << 20;
// The most bytes of one transfer between processes.
inline constexpr std::size_t kMostTransferBytes = std::size_t{32} << 20;

// A new id, such as "4711-1": the process id, and a number that is unique in the process. It is valid on this machine.
std::string new_unique_id();
// The id of the process that made a unique id.
long maker_of(const std::string& id);

class SharedWorld {
 public:
  // Opens the file of this id. Null if there is no such file and `make` is false, or if it can't be made.
  static std::shared_ptr<SharedWorld> open(const std::string& id, int ranks, bool make);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  // Enters a rank. Returns "", or why the rank can't enter: another rank of this host (by NCCL_HOSTID) uses the device,
  // or the rank has entered already, or the sizes differ.
  std::string enter(int rank, int device);
  bool complete() const;
  // Sets an error that every process sees.
  void fail(ncclResult_t error);
  ncclResult_t error() const { return static_cast<ncclResult_t>(head_->error.load()); }

  // A rank's part in the call of this number, counted from 1. None of these functions waits.
  bool may_give(std::uint64_t number) const;  // whether all ranks have read what the previous call gave
  void give(int rank, std::uint64_t number, const Call& call);
  bool all_gave(std::uint64_t number) const;
  // The calls of all ranks. They read what the ranks gave, and write only the result of rank `own`.
  std::vector<Call> calls(int own, const Call& call) const;
  void took(int rank, std::uint64_t number) { head_->slots[rank].taken = number; }

  // A transfer from one rank to another; transfers of a pair are numbered from 1.
  struct Pair {
    int from, to;
  };
  bool may_send(Pair pair, std::uint64_t number) const { return line(pair).taken + 1 == number; }
  void send(Pair pair, std::uint64_t number, const Call& call);
  bool is_sent(Pair pair, std::uint64_t number) const { return line(pair).given >= number; }
  // The sender's call. It reads what the sender gave.
  Call sent(Pair pair) const;
  void received(Pair pair, std::uint64_t number) { line(pair).taken = number; }
  bool is_received(Pair pair, std::uint64_t number) const { return line(pair).taken >= number; }

 private:
  struct Slot {
    std::atomic<int> device;  // device + 1; 0: the rank hasn't entered yet
    std::size_t host;         // from NCCL_HOSTID
    std::atomic<std::uint64_t> given, taken;
    Call call;  // its addresses are meaningless in other processes
  };
  struct Line {
    std::atomic<std::uint64_t> given, taken;
    Call call;
  };
  struct Head {
    std::atomic<int> ranks, error;
    Slot slots[kMostRanks];
    Line lines[kMostRanks * kMostRanks];
  };
  SharedWorld(std::string path, int descriptor, int ranks, void* memory);
  char* data(int rank) const;
  char* data(Pair pair) const;
  Line& line(Pair pair) const { return head_->lines[pair.from * kMostRanks + pair.to]; }

  const std::string path_;
  const int descriptor_;
  const int ranks_;
  Head* const head_;
};

}  // namespace dptrain::cuda_sim
