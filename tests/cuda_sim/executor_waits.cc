// Barriers and warp exchanges.
#include <algorithm>
#include <bit>
#include <sstream>

#include "executor.h"

namespace dptrain::cuda_sim {
namespace {

std::string text(const uint3& place) {
  std::ostringstream out;
  out << '(' << place.x << ", " << place.y << ", " << place.z << ')';
  return out.str();
}

}  // namespace

std::string Executor::position(unsigned thread) const {
  return kernel_name(grid_->kernel) + " block " + text(blockIdx) + " thread " + text(places_[thread]);
}

void Executor::fail(const std::string& what) {
  if (error_.empty()) error_ = what;
}

// The thread never continues: the grid ends.
void Executor::fault(const char* what) {
  fail(position(current_) + ": " + what);
  suspend(ThreadState::kInExchange);
}

void Executor::suspend(ThreadState state) {
  Thread& thread = threads_[current_];
  thread.state = state;
  thread.fiber->leave();
}

Votes Executor::barrier(bool predicate) {
  threads_[current_].predicate = predicate;
  ++at_barrier_;
  suspend(ThreadState::kAtBarrier);
  return votes_;
}

std::uint64_t Executor::exchange(unsigned mask, std::uint64_t value, int source_lane, Exchange kind) {
  const unsigned self = current_;
  Thread& thread = threads_[self];
  thread.mask = mask;
  thread.value = value;
  thread.source_lane = source_lane;
  thread.kind = kind;
  const unsigned first = self / kWarp * kWarp;
  // Lanes past the block's end don't exist; CUDA allows a full mask for the existing lanes.
  const unsigned lanes = std::min(kWarp, static_cast<unsigned>(threads_.size()) - first);
  const unsigned existing = lanes == kWarp ? ~0u : (1u << lanes) - 1;
  if ((mask >> (self % kWarp) & 1) == 0) fault("a warp exchange whose mask does not name the calling lane");
  for (unsigned rest = mask & existing & ~(1u << (self % kWarp)); rest != 0; rest &= rest - 1) {
    const Thread& other = threads_[first + static_cast<unsigned>(std::countr_zero(rest))];
    if (other.state != ThreadState::kInExchange || other.mask != mask) {
      suspend(ThreadState::kInExchange);
      return thread.value;
    }
    if (other.kind != kind) fault("lanes of one mask are in different warp exchanges");
  }
  complete_exchange(first, mask & existing);
  return thread.value;
}

// The last lane continues without a switch; the others become ready.
void Executor::complete_exchange(unsigned first, unsigned mask) {
  std::uint64_t given[kWarp];
  std::uint64_t ballot = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    given[lane] = threads_[first + lane].value;
    if (given[lane] != 0) ballot |= 1ull << lane;
  }
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    Thread& thread = threads_[first + lane];
    if (thread.kind == Exchange::kBallot) {
      thread.value = ballot;
    } else if (thread.kind == Exchange::kShuffle) {
      const auto source = static_cast<unsigned>(thread.source_lane) % kWarp;
      // The value of a lane outside the mask is undefined: all ones, a NaN.
      thread.value = (mask >> source & 1) != 0 ? given[source] : ~0ull;
    }
    if (first + lane != current_) {
      thread.state = ThreadState::kReady;
      ++ready_;
    }
  }
}

bool Executor::release_barrier() {
  if (at_barrier_ == 0 || at_barrier_ + done_ != threads_.size()) return false;
  votes_ = {};
  for (Thread& thread : threads_) {
    if (thread.state != ThreadState::kAtBarrier) continue;
    ++votes_.total;
    votes_.yes += thread.predicate;
    thread.state = ThreadState::kReady;
    ++ready_;
  }
  at_barrier_ = 0;
  return true;
}

std::string Executor::stuck() const {
  std::ostringstream out;
  unsigned exchanging = 0, shown = 0;
  for (unsigned t = 0; t < threads_.size(); ++t) {
    if (threads_[t].state != ThreadState::kInExchange) continue;
    ++exchanging;
    if (shown++ == 0) {
      out << position(t) << ": a warp exchange with mask 0x" << std::hex << threads_[t].mask << std::dec
          << " waits for ever:";
      for (unsigned lane = 0; lane < kWarp; ++lane) {
        const unsigned other = t / kWarp * kWarp + lane;
        if ((threads_[t].mask >> lane & 1) == 0 || other >= threads_.size()) continue;
        if (threads_[other].state == ThreadState::kDone) out << " lane " << lane << " has returned;";
        if (threads_[other].state == ThreadState::kAtBarrier) out << " lane " << lane << " is at __syncthreads;";
        if (threads_[other].state == ThreadState::kInExchange && threads_[other].mask != threads_[t].mask) {
          out << " lane " << lane << " gave mask 0x" << std::hex << threads_[other].mask << std::dec << ';';
        }
      }
    }
  }
  out << " (" << exchanging << " threads in warp exchanges, " << at_barrier_ << " at __syncthreads, " << done_
      << " returned)";
  return out.str();
}

}  // namespace dptrain::cuda_sim
