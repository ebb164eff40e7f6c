#include "device/memory_arena.h"

#include <iterator>

namespace dptrain {

void MemoryArena::mark_free(Blocks::iterator block) {
  block->second.free = true;
  free_.insert(place_of(*block));
}

void MemoryArena::mark_taken(Blocks::iterator block) {
  block->second.free = false;
  free_.erase(place_of(*block));
}

bool MemoryArena::take_segment(int64_t bytes) {
  int64_t taken = source_.segment_bytes(bytes);
  ++source_calls_;
  void* memory = source_.take(taken);
  if (memory == nullptr && taken > bytes) memory = source_.take(taken = bytes);
  if (memory == nullptr) return false;
  const Block whole{
      .bytes = taken, .free = true, .begins_segment = true, .age = source_.costs_once_written() ? source_calls_ : 0};
  mark_free(blocks_.emplace(static_cast<std::byte*>(memory), whole).first);
  return true;
}

MemoryArena::Free::iterator MemoryArena::find_free(int64_t bytes) const {
  auto block = free_.begin();
  // Go to the first block that is large enough in this segment, or else to the smallest one of the next segment.
  while (block != free_.end() && std::get<1>(*block) < bytes)
    block = free_.lower_bound({std::get<0>(*block), bytes, nullptr});
  return block;
}

void* MemoryArena::take(int64_t bytes) {
  auto fitting = find_free(bytes);
  if (fitting == free_.end()) {
    if (!take_segment(bytes)) return nullptr;
    fitting = find_free(bytes);
  }
  const auto block = blocks_.find(std::get<2>(*fitting));
  mark_taken(block);
  if (const int64_t rest = block->second.bytes - bytes; rest > 0) {
    block->second.bytes = bytes;
    mark_free(blocks_.emplace(block->first + bytes, Block{.bytes = rest, .age = block->second.age}).first);
  }
  return block->first;
}

void MemoryArena::join_next(Blocks::iterator block) {
  const auto next = std::next(block);
  free_.erase(place_of(*block));
  free_.erase(place_of(*next));
  block->second.bytes += next->second.bytes;
  blocks_.erase(next);
  free_.insert(place_of(*block));
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
      free_.erase(place_of(*block));
      source_.give_back(block->first, block->second.bytes);
      blocks_.erase(block);
    } else if (block->second.free) {
      source_.discard(block->first, block->second.bytes);
    }
    block = next;
  }
}

}  // namespace dptrain
