#include <algorithm>
#include <bit>
#include <utility>

#include "ops/sort_by_id_cuda.h"
#include "ops/warp_cuda.h"

// Radix sort, least significant digit first (Knuth, The Art of Computer Programming 3, 5.2.5). A pass keeps the order
// of equal digits, so that after the last pass the positions are in the order of the ids. A pass has three kernels:
//   count     counts how often each digit occurs in each tile of positions,
//   scan      finds where each tile's positions of each digit begin: digit by digit, and within a digit tile by tile,
//   scatter   moves the positions there.
// Within a tile a warp has a run of neighboring positions, which it takes 32 at a time. Lanes with the same digit find
// each other by ballots, and the first of them counts them in the warp's own counts.

namespace dptrain::ops::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kRounds = 8;
constexpr int64_t kRunOfWarp = int64_t{32} * kRounds;
constexpr int64_t kTile = kRunOfWarp * kWarps;
static_assert(kDigits == 32 * kWarps, "a thread a digit");

/// One pass over `count` ids.
struct Pass {
  const int32_t* ids;
  const int32_t* positions;  ///< null: 0, 1, 2 ...
  int64_t count, tiles;
  int shift, bits;  ///< of the digit

  __device__ int digit(int32_t id) const { return (id >> shift) & ((1 << bits) - 1); }
  __device__ int64_t place(int round) const {
    return int64_t{blockIdx.x} * kTile + threadIdx.y * kRunOfWarp + round * 32 + threadIdx.x;
  }
  /// The lanes whose place exists and has the same digit; none if this lane's place doesn't exist. All lanes must call
  /// it.
  __device__ unsigned alike(int digit, bool is_there) const {
    unsigned lanes = __ballot_sync(kAllLanes, is_there);
    for (int bit = 0; bit < bits; ++bit) {
      const unsigned set = __ballot_sync(kAllLanes, digit >> bit & 1);
      lanes &= (digit >> bit & 1) != 0 ? set : ~set;
    }
    return is_there ? lanes : 0;
  }
  __device__ bool is_first_of(unsigned lanes) const {
    return lanes != 0 && __ffs(lanes) - 1 == static_cast<int>(threadIdx.x);
  }
  __device__ int thread() const { return static_cast<int>(threadIdx.y * 32 + threadIdx.x); }
};

/// counts[warp][digit] = how often the digit occurs in the warp's run. All threads of the block must call it.
__device__ void count_of_warps(const Pass& p, int (*counts)[kDigits]) {
  for (int digit = static_cast<int>(threadIdx.x); digit < kDigits; digit += 32) counts[threadIdx.y][digit] = 0;
  __syncwarp();
  for (int round = 0; round < kRounds; ++round) {
    const int64_t place = p.place(round);
    const bool is_there = place < p.count;
    const int digit = is_there ? p.digit(p.ids[place]) : 0;
    const unsigned lanes = p.alike(digit, is_there);
    if (p.is_first_of(lanes)) counts[threadIdx.y][digit] += __popc(lanes);
    __syncwarp();
  }
  __syncthreads();
}

/// counts[digit * tiles + tile] = how often the digit occurs in the tile.
__global__ void count_kernel(Pass p, int32_t* counts) {
  __shared__ int of_warps[kWarps][kDigits];
  count_of_warps(p, of_warps);
  int sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[warp][p.thread()];
  counts[p.thread() * p.tiles + blockIdx.x] = sum;
}

/// Each number becomes the sum of those before it. One block of kThreads threads, each of which has a run of the
/// numbers.
__global__ void scan_kernel(int32_t* numbers, int64_t count) {
  __shared__ int32_t sums[kThreads];
  const int64_t run = (count + kThreads - 1) / kThreads, begin = threadIdx.x * run;
  const int64_t end = begin + run < count ? begin + run : count;
  int32_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += numbers[i];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (unsigned step = 1; step < kThreads; step *= 2) {
    const int32_t before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  int32_t sum = sums[threadIdx.x] - own;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t number = numbers[i];
    numbers[i] = sum;
    sum += number;
  }
}

__global__ void scatter_kernel(Pass p, const int32_t* begins, int32_t* ids, int32_t* positions) {
  __shared__ int next[kWarps][kDigits];
  count_of_warps(p, next);
  // In `next`, counts become the places where each warp's positions of a digit begin.
  int begin = begins[p.thread() * p.tiles + blockIdx.x];
  for (int warp = 0; warp < kWarps; ++warp) {
    const int count = next[warp][p.thread()];
    next[warp][p.thread()] = begin;
    begin += count;
  }
  __syncthreads();
  for (int round = 0; round < kRounds; ++round) {
    const int64_t place = p.place(round);
    const bool is_there = place < p.count;
    const int32_t id = is_there ? p.ids[place] : 0;
    const int digit = p.digit(id);
    const unsigned lanes = p.alike(digit, is_there);
    const int first = next[threadIdx.y][digit];
    __syncwarp();
    if (is_there) {
      const int to = first + __popc(lanes & ((1u << threadIdx.x) - 1));
      ids[to] = id;
      positions[to] = p.positions != nullptr ? p.positions[place] : static_cast<int32_t>(place);
    }
    if (p.is_first_of(lanes)) next[threadIdx.y][digit] = first + __popc(lanes);
    __syncwarp();
  }
}

}  // namespace

SortedPositions sort_by_id(const Tensor& ids, int64_t bound) {
  const int64_t count = ids.elements(), tiles = (count + kTile - 1) / kTile;
  const auto numbers = [&](int64_t length) {
    return Tensor::empty(ids.device(), {length}, {.dtype = DType::i32, .purpose = MemoryPurpose::workspace});
  };
  const Tensor counts = numbers(kDigits * tiles);
  SortedPositions from{.order = Tensor(), .sorted = ids}, to{.order = numbers(count), .sorted = numbers(count)};
  SortedPositions spare;
  const int bits = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(bound - 1))));
  const int passes = (bits + kDigitBits - 1) / kDigitBits;
  for (int pass = 0; pass < passes; ++pass) {
    // The passes have equally many bits, or differ by one.
    const int begin = bits * pass / passes, end = bits * (pass + 1) / passes;
    const Pass p{.ids = from.sorted.data<int32_t>(),
                 .positions = data_or_null<int32_t>(from.order),
                 .count = count,
                 .tiles = tiles,
                 .shift = begin,
                 .bits = end - begin};
    const auto blocks = static_cast<unsigned>(tiles);
    launch("count digits", ids, blocks, block_of_warps(), count_kernel, p, counts.data<int32_t>());
    launch("scan digits", ids, 1, kThreads, scan_kernel, counts.data<int32_t>(), counts.elements());
    launch("scatter digits", ids, blocks, block_of_warps(), scatter_kernel, p, counts.data<int32_t>(),
           to.sorted.data<int32_t>(), to.order.data<int32_t>());
    if (pass + 1 == passes) break;
    // The caller's ids must stay as they are, so later passes use spare memory.
    if (pass == 0) spare = {.order = numbers(count), .sorted = numbers(count)};
    from = std::exchange(to, std::exchange(spare, to));
  }
  return to;
}

}  // namespace dptrain::ops::cuda
