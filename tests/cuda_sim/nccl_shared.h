// What ranks of several processes of this machine have in common: a file that all of them map, named by the unique id.
// It goes as soon as all are there; that of processes that died before, with the next unique id.
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
// Of one rank in one call between processes. The file is sparse.
inline constexpr std::size_t kMostBytes = std::size_t{64} << 20;
// Of one transfer between processes.
inline constexpr std::size_t kMostTransferBytes = std::size_t{32} << 20;

// "4711-1": made by this process, for this machine.
std::string new_unique_id();
// The process that made it.
long maker_of(const std::string& id);

class SharedWorld {
 public:
  // Null where there is no file of this id and none is to be made, or where it can't be.
  static std::shared_ptr<SharedWorld> open(const std::string& id, int ranks, bool make);
  ~SharedWorld();
  SharedWorld(const SharedWorld&) = delete;
  SharedWorld& operator=(const SharedWorld&) = delete;

  // Why it can't: another rank has the device, of this host by NCCL_HOSTID, or there is this rank already, or the sizes
  // differ. "" where it has entered.
  std::string enter(int rank, int device);
  bool complete() const;
  // Every process learns of it.
  void fail(ncclResult_t error);
  ncclResult_t error() const { return static_cast<ncclResult_t>(head_->error.load()); }

  // A rank's part in the call of this number, from 1. Nobody waits in here.
  bool may_give(std::uint64_t number) const;  // what was given to the last one has been read by all
  void give(int rank, std::uint64_t number, const Call& call);
  bool all_gave(std::uint64_t number) const;
  // All ranks' calls, which read what they gave, and write nothing but `own`'s result.
  std::vector<Call> calls(int own, const Call& call) const;
  void took(int rank, std::uint64_t number) { head_->slots[rank].taken = number; }

  // The transfer of this number, from 1, from one rank to another.
  struct Pair {
    int from, to;
  };
  bool may_send(Pair pair, std::uint64_t number) const { return line(pair).taken + 1 == number; }
  void send(Pair pair, std::uint64_t number, const Call& call);
  bool is_sent(Pair pair, std::uint64_t number) const { return line(pair).given >= number; }
  // The sender's call, which reads what it gave.
  Call sent(Pair pair) const;
  void received(Pair pair, std::uint64_t number) { line(pair).taken = number; }
  bool is_received(Pair pair, std::uint64_t number) const { return line(pair).taken >= number; }

 private:
  struct Slot {
    std::atomic<int> device;  // and 1; 0: not there yet
    std::size_t host;         // by NCCL_HOSTID
    std::atomic<std::uint64_t> given, taken;
    Call call;  // of which the addresses mean nothing elsewhere
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
