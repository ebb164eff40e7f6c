#include "ops/add_padded_cpu.h"

#include <algorithm>
#include <cstring>

#include "ops/channel_prefixes.h"
#include "ops/elementwise_kernels.h"
#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

/// Below this many elements another thread costs more than it saves.
constexpr int64_t kGrain = 16384;

int64_t grain_of(const ChannelPrefixes& prefixes) { return std::max(int64_t{1}, kGrain / prefixes.whole); }

/// Copies elements of any type from element `from_at` of one tensor's storage to element `to_at` of another's.
void copy(const Tensor& from, int64_t from_at, const Tensor& to, int64_t to_at, int64_t count) {
  const int64_t size = dtype_bytes(from.dtype());
  std::memcpy(to.raw() + to_at * size, from.raw() + from_at * size, static_cast<size_t>(count * size));
}

/// Zeroes the lanes without a channel in the last block, for the sample whose storage begins at element `at`.
void clear_padding(const Tensor& x, int64_t at) {
  const int64_t block = layout_block(x.layout()), channels = x.shape()[1], used = channels % block;
  if (used == 0) return;
  const int64_t positions = x.shape()[2] * x.shape()[3], size = dtype_bytes(x.dtype());
  std::byte* last = x.raw() + (at + channels / block * positions * block) * size;
  for (int64_t p = 0; p < positions; ++p)
    std::memset(last + (p * block + used) * size, 0, static_cast<size_t>((block - used) * size));
}

/// Processes x's part of each run in pieces: calls body(at in the fewer channels, at in the more, count, pieces), with
/// room for `operands` operands, and finish(run) after a run's last piece.
template <class Body, class Finish>
void for_each_piece_of_runs(const Tensor& x, const ChannelPrefixes& prefixes, int64_t operands, const Body& body,
                            const Finish& finish) {
  const int64_t step = x.dtype() == DType::f32 ? prefixes.part : std::min(prefixes.part, kPieceElements);
  const PieceRoom room(x, operands * step);
  parallel_parts(x.device(), prefixes.runs, grain_of(prefixes), [&](int64_t part, int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      for (int64_t i = 0; i < prefixes.part; i += step) {
        Pieces pieces(room.of(part));
        body(run * prefixes.part + i, run * prefixes.whole + i, std::min(step, prefixes.part - i), pieces);
      }
      finish(run);
    }
  });
}

}  // namespace

void add_padded(const Tensor& y, const Tensor& x, const Tensor& sum) {
  const ChannelPrefixes prefixes(x, y);
  for_each_piece_of_runs(
      x, prefixes, 3,
      [&](int64_t of_x, int64_t of_y, int64_t count, Pieces& pieces) {
        elementwise_kernels().add(pieces.read(y, of_y, count), pieces.read(x, of_x, count),
                                  pieces.write(sum, of_y, count), count);
      },
      [&](int64_t run) {
        const int64_t behind = run * prefixes.whole + prefixes.part;
        copy(y, behind, sum, behind, prefixes.whole - prefixes.part);
      });
}

void add_first_channels_into(const Tensor& x, const Tensor& y) {
  const ChannelPrefixes prefixes(x, y);
  for_each_piece_of_runs(
      x, prefixes, 2,
      [&](int64_t of_x, int64_t of_y, int64_t count, Pieces& pieces) {
        elementwise_kernels().add_into(pieces.update(x, of_x, count), pieces.read(y, of_y, count), count);
      },
      [&](int64_t run) { clear_padding(x, run * prefixes.part); });
}

void first_channels(const Tensor& y, const Tensor& x) {
  const ChannelPrefixes prefixes(x, y);
  parallel_ranges(y.device(), prefixes.runs, grain_of(prefixes), [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      copy(y, run * prefixes.whole, x, run * prefixes.part, prefixes.part);
      clear_padding(x, run * prefixes.part);
    }
  });
}

}  // namespace dptrain::ops::cpu
