#include "device/memory_arena.h"

#include <iterator>

namespace dptrain {

void MemoryArena::mark_free(Blocks::iterator block) {
  block->second.free = true;
  free_.emplace(block->second.bytes, block->first);
}

void MemoryArena::mark_taken(Blocks::iterator block) {
  block->second.free = false;
  free_.erase({block->second.bytes, block->first});
}

bool MemoryArena::take_segment(int64_t bytes) {
  int64_t taken = source_.segment_bytes(bytes);
  ++source_calls_;
  void* memory = source_.take(taken);
  if (memory == nullptr && taken > bytes) memory = source_.take(taken = bytes);
  if (memory == nullptr) return false;
  const Block whole{.bytes = taken, .free = true, .begins_segment = true};
  mark_free(blocks_.emplace(static_cast<std::byte*>(memory), whole).first);
  return true;
}

void* MemoryArena::take(int64_t bytes) {
  auto fitting = free_.lower_bound({bytes, nullptr});
  if (fitting == free_.end()) {
    if (!take_segment(bytes)) return nullptr;
    fitting = free_.lower_bound({bytes, nullptr});
  }
  const auto block = blocks_.find(fitting->second);
  mark_taken(block);
  if (const int64_t rest = block->second.bytes - bytes; rest > 0) {
    block->second.bytes = bytes;
    mark_free(blocks_.emplace(block->first + bytes, Block{.bytes = rest}).first);
  }
  return block->first;
}

void MemoryArena::join_next(Blocks::iterator block) {
  const auto next = std::next(block);
  free_.erase({block->second.bytes, block->first});
  free_.erase({next->second.bytes, next->first});
  block->second.bytes += next->second.bytes;
  blocks_.erase(next);
  free_.emplace(block->second.bytes, block->first);
}

void MemoryArena::give_back(void* memory) {
  const auto block = blocks_.find(static_cast<std::byte*>(memory));
  mark_free(block);
  const auto next = std::next(block);
  if (next != blocks_.end() && next->second.free && !next->second.begins_segment) join_next(block);
  if (block->second.begins_segment) return;
  if (const auto previous = std::prev(block); previous->second.free) join_next(previous);
}

void MemoryArena::release_free() noexcept {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    const bool ends_segment = next == blocks_.end() || next->second.begins_segment;
    if (block->second.free && block->second.begins_segment && ends_segment) {
      free_.erase({block->second.bytes, block->first});
      source_.give_back(block->first, block->second.bytes);
      blocks_.erase(block);
    }
    block = next;
  }
}

}  // namespace dptrain
