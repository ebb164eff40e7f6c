#include "plan/tree_seconds.h"

#include <algorithm>
#include <vector>

#include "comm/rank_tree_plan.h"
#include "comm/tree_sum.h"

namespace dptrain::plan {
namespace {

/// The bytes that a GPU reads and writes for a sum.
double bytes_of(const RankSum& sum) {
  const int64_t one = dtype_bytes(sum.dtype), of_several = dtype_bytes(partial_sum_dtype(sum.dtype));
  int64_t bytes = sum.partial ? of_several : one;
  for (const int width : sum.widths) bytes += width > 1 ? of_several : one;
  return static_cast<double>(bytes * sum.elements);
}

/// Seconds of one piece, the sum over its rounds. A round counts the bytes that all ranks of the first host, or of the
/// root's, send over its link, and what the busiest rank sends and adds up inside the host.
double piece_seconds(const CommCall& call, const WorldShape& shape, const HostLinks& hosts,
                     const DeviceFigures& figures) {
  const RankRun host = shape.ranks_of(call.other >= 0 ? shape.process_of(call.other) : 0);
  struct Round {
    double sent = 0;
    double received = 0;
    // The largest of any rank:
    double inside = 0;
    int messages = 0;  ///< to or from other hosts
    double adding_s = 0;
  };
  std::vector<Round> rounds;
  for (int rank = host.begin; rank < host.end; ++rank) {
    const RankTreePlan plan = plan_rank_tree(call, {.nodes = shape, .rank = rank});
    rounds.resize(plan.stages.size());
    for (size_t stage = 0; stage < rounds.size(); ++stage) {
      Round& round = rounds[stage];
      double sent = 0, received = 0, added = 0;
      int sends = 0, receives = 0;
      for (const RankMessage& message : plan.stages[stage].messages) {
        const auto bytes = static_cast<double>(message.bytes);
        if (host.contains(message.rank)) {
          (message.sends ? sent : received) += bytes;
        } else {
          (message.sends ? round.sent : round.received) += bytes;
          ++(message.sends ? sends : receives);
        }
      }
      for (const RankSum& sum : plan.stages[stage].sums) added += bytes_of(sum);
      round.inside = std::max({round.inside, sent, received});
      round.messages = std::max({round.messages, sends, receives});
      round.adding_s =
          std::max(round.adding_s, figures.memory_bytes_per_s > 0 ? added / figures.memory_bytes_per_s : 0);
    }
  }
  double seconds = 0;
  for (const Round& round : rounds) {
    seconds += round.adding_s;
    if (round.messages > 0)
      seconds += hosts.link.seconds(std::max(round.sent, round.received)) + round.messages * hosts.message_s;
    if (round.inside > 0) seconds += figures.inside.seconds(round.inside);
  }
  return seconds;
}

}  // namespace

double tree_seconds(const CommCall& call, const WorldShape& shape, const HostLinks& hosts,
                    const DeviceFigures& figures) {
  double seconds = 0;
  for (const CommCall& piece : pieces_of(call, kMostTreeBytes)) seconds += piece_seconds(piece, shape, hosts, figures);
  return seconds;
}

}  // namespace dptrain::plan
