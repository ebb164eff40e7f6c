#include "ops/embedding_cpu.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "ops/f32_pieces.h"

namespace dptrain::ops::cpu {
namespace {

std::span<const int32_t> checked(const Tensor& ids, int64_t rows) {
  const std::span all(ids.data<int32_t>(), static_cast<size_t>(ids.elements()));
  for (const int32_t id : all) DPTRAIN_CHECK(id >= 0 && id < rows, "embedding: id {} of a table of {} rows", id, rows);
  return all;
}

/// The positions of each id that occurs, in order, by a counting sort.
struct PositionsById {
  PositionsById(std::span<const int32_t> ids, int64_t rows) : positions(ids.size()) {
    std::vector<size_t> end(static_cast<size_t>(rows) + 1);
    for (const int32_t id : ids) ++end[static_cast<size_t>(id) + 1];
    for (size_t id = 0; id + 1 < end.size(); ++id) {
      if (end[id + 1] > 0) {
        used.push_back(static_cast<int64_t>(id));
        begin.push_back(end[id]);
      }
      end[id + 1] += end[id];
    }
    begin.push_back(ids.size());
    for (size_t p = 0; p < ids.size(); ++p) positions[end[static_cast<size_t>(ids[p])]++] = static_cast<int64_t>(p);
  }
  std::span<const int64_t> of(size_t which) const {
    return std::span(positions).subspan(begin[which], begin[which + 1] - begin[which]);
  }

  std::vector<int64_t> used;  ///< the ids that occur
  std::vector<size_t> begin;  ///< where the positions of used[i] begin
  std::vector<int64_t> positions;
};

/// Columns that a thread sums at once.
constexpr int64_t kColumns = 128;

}  // namespace

void embedding_forward(const Tensor& table, const Tensor& ids, const Tensor& y) {
  if (!y.device().computes()) return;
  const int64_t row_bytes = table.shape()[1] * dtype_bytes(table.dtype());
  const auto all = checked(ids, table.shape()[0]);
  parallel_for(y.device(), ids.elements(), [&](int64_t p) {
    const std::byte* row = table.raw() + all[static_cast<size_t>(p)] * row_bytes;
    std::memcpy(y.raw() + p * row_bytes, row, static_cast<size_t>(row_bytes));
  });
}

void add_rows(const Tensor& ids, const Tensor& incoming, const Tensor& table, int32_t untrained) {
  if (!table.device().computes()) return;
  const int64_t rows = table.shape()[0], width = table.shape()[1];
  const PositionsById by_id(checked(ids, rows), rows);
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  // Tasks are also split by columns: a table of two token types has only two long sums. Sums are in double, so that
  // long sums don't lose precision.
  parallel_for(table.device(), static_cast<int64_t>(by_id.used.size()) * blocks, [&](int64_t task) {
    const auto which = static_cast<size_t>(task / blocks);
    if (by_id.used[which] == untrained) return;
    const int64_t first = task % blocks * kColumns, count = std::min(kColumns, width - first);
    float room[kColumns];
    double sums[kColumns] = {};
    for (const int64_t position : by_id.of(which)) {
      Pieces pieces(room);
      const float* row = pieces.read(incoming, position * width + first, count);
      for (int64_t c = 0; c < count; ++c) sums[c] += row[c];
    }
    float* to = table.data<float>() + by_id.used[which] * width + first;
    for (int64_t c = 0; c < count; ++c) to[c] = static_cast<float>(to[c] + sums[c]);
  });
}

}  // namespace dptrain::ops::cpu
