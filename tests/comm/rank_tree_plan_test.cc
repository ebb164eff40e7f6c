// Sums over ranks that don't share memory: bits of the tree's order with any nodes, and the number of bytes between
// nodes.
#include "comm/rank_tree_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "comm/tree_sum.h"
#include "tensor/half_precision.h"

namespace dptrain {
namespace {

using Bytes = std::vector<std::byte>;

/// One rank's buffers and plan.
struct Rank {
  RankTreePlan plan;
  Bytes in, out, staging;

  std::byte* at(const BufferPlace& place) {
    Bytes& buffer = place.buffer == BufferPlace::Buffer::in    ? in
                    : place.buffer == BufferPlace::Buffer::out ? out
                                                               : staging;
    return buffer.data() + place.byte;
  }
};

/// All ranks of a world, played one after the other.
class World {
 public:
  World(const WorldShape& nodes, const CommCall& call, int most_inputs) : nodes_(nodes), call_(call) {
    std::mt19937 random(17);
    for (int rank = 0; rank < nodes.ranks(); ++rank) {
      Rank& made = ranks_.emplace_back();
      made.plan = plan_rank_tree(call, {.nodes = nodes, .rank = rank, .most_inputs = most_inputs});
      for (int64_t i = 0; i < call.in.elements; ++i) append(made.in, random);
      in_.push_back(made.in);
      made.out.resize(static_cast<size_t>(call.out.bytes()), std::byte{0xff});
      made.staging.resize(static_cast<size_t>(made.plan.staging_bytes), std::byte{0xff});
      if (is_in_place()) made.out.clear();
    }
  }

  void run() {
    const size_t stages = ranks_[0].plan.stages.size();
    for (size_t stage = 0; stage < stages; ++stage) {
      for (Rank& rank : ranks_) {
        ASSERT_EQ(rank.plan.stages.size(), stages);
        for (const RankSum& sum : rank.plan.stages[stage].sums) add(rank, sum);
      }
      exchange(stage);
    }
  }

  /// A rank's result, after a comparison with the sum by the definition.
  Bytes result(int rank) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    return is_in_place() ? own.in : own.out;
  }
  Bytes expected(int rank) const {
    Bytes sum(in_[0].size());
    TreeSum whole{.inputs = {}, .outputs = {sum.data()}, .elements = call_.in.elements, .dtype = call_.in.dtype};
    for (const Bytes& in : in_) whole.inputs.push_back(in.data());
    whole.run(0, whole.elements);
    if (call_.kind == CommKind::reduce && rank != call_.other) return in_[static_cast<size_t>(rank)];
    if (call_.kind != CommKind::reduce_scatter) return sum;
    const auto begin = sum.begin() + rank * call_.out.bytes();
    return Bytes(begin, begin + call_.out.bytes());
  }

  /// The bytes that a rank sends to other nodes.
  int64_t bytes_leaving(int rank) const {
    int64_t bytes = 0;
    for (const RankStage& stage : ranks_[static_cast<size_t>(rank)].plan.stages)
      for (const RankMessage& message : stage.messages)
        if (message.sends && nodes_.process_of(message.rank) != nodes_.process_of(rank)) bytes += message.bytes;
    return bytes;
  }
  const RankTreePlan& plan(int rank) const { return ranks_[static_cast<size_t>(rank)].plan; }

 private:
  bool is_in_place() const { return call_.kind != CommKind::reduce_scatter; }

  /// Numbers of very different magnitudes, so that nearly every sum rounds.
  void append(Bytes& to, std::mt19937& random) const {
    const float value = std::ldexp(static_cast<float>(random()) - 2147483648.f, static_cast<int>(random() % 20) - 40);
    const auto put = [&to](const auto& number) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&number);
      to.insert(to.end(), bytes, bytes + sizeof number);
    };
    if (call_.in.dtype == DType::bf16)
      put(rounded_to<Bfloat16>(value));
    else
      put(value);
  }

  std::byte* place(Rank& rank, BufferPlace place) const {
    if (is_in_place() && place.buffer == BufferPlace::Buffer::out) place.buffer = BufferPlace::Buffer::in;
    return rank.at(place);
  }

  void add(Rank& rank, const RankSum& sum) {
    TreeSum placed{.inputs = {},
                   .outputs = {place(rank, sum.output)},
                   .elements = sum.elements,
                   .dtype = sum.dtype,
                   .widths = sum.widths,
                   .partial = sum.partial};
    for (const BufferPlace& input : sum.inputs) placed.inputs.push_back(place(rank, input));
    placed.run(0, sum.elements);
  }

  void exchange(size_t stage) {
    std::map<std::pair<int, int>, std::deque<Bytes>> under_way;
    const auto for_messages = [&](bool sends, const auto& act) {
      for (int r = 0; r < nodes_.ranks(); ++r)
        for (const RankMessage& message : ranks_[static_cast<size_t>(r)].plan.stages[stage].messages)
          if (message.sends == sends) act(r, message, place(ranks_[static_cast<size_t>(r)], message.place));
    };
    for_messages(true, [&](int from, const RankMessage& message, const std::byte* data) {
      under_way[{from, message.rank}].emplace_back(data, data + message.bytes);
    });
    for_messages(false, [&](int to, const RankMessage& message, std::byte* data) {
      auto& line = under_way[{message.rank, to}];
      ASSERT_FALSE(line.empty()) << to << " expects more of " << message.rank << " in stage " << stage;
      ASSERT_EQ(static_cast<int64_t>(line.front().size()), message.bytes);
      expect_nobody_else_at(to, stage, message);
      std::memcpy(data, line.front().data(), line.front().size());
      line.pop_front();
    });
    for (const auto& [ends, line] : under_way)
      EXPECT_TRUE(line.empty()) << ends.second << " expects less of " << ends.first << " in stage " << stage;
  }

  /// All messages of a stage are in flight at once, so a received message must not overlap memory that is sent or
  /// received.
  void expect_nobody_else_at(int rank, size_t stage, const RankMessage& received) {
    Rank& own = ranks_[static_cast<size_t>(rank)];
    const std::byte* begin = place(own, received.place);
    for (const RankMessage& other : own.plan.stages[stage].messages) {
      const std::byte* data = place(own, other.place);
      if (&other == &received) continue;
      EXPECT_TRUE(data + other.bytes <= begin || begin + received.bytes <= data) << "stage " << stage;
    }
  }

  const WorldShape& nodes_;
  const CommCall& call_;
  std::vector<Rank> ranks_;
  std::vector<Bytes> in_;
};

CommCall call_of(CommKind kind, const WorldShape& nodes, int64_t elements, DType dtype) {
  const CommBuffer buffer{.data = nullptr, .elements = elements, .dtype = dtype};
  if (kind != CommKind::reduce_scatter)
    return {.kind = kind, .in = buffer, .out = buffer, .other = kind == CommKind::reduce ? nodes.ranks() / 2 : -1};
  return {.kind = kind, .in = {.data = nullptr, .elements = elements * nodes.ranks(), .dtype = dtype}, .out = buffer};
}

const std::vector<std::vector<int>> kNodes = {{1},    {4},       {1, 1},          {1, 1, 1, 1, 1}, {2, 2},
                                              {3, 3}, {2, 4},    {4, 1},          {1, 2, 3, 5},    {8, 8},
                                              {7},    {2, 2, 2}, {4, 4, 4, 4, 4}, {5, 1, 6}};

TEST(RankTreePlan, EverySumIsTheTreeToTheLastBit) {
  for (const std::vector<int>& shape : kNodes) {
    const WorldShape nodes(shape);
    for (const CommKind kind : {CommKind::all_reduce, CommKind::reduce, CommKind::reduce_scatter})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const int64_t elements : {0, 1, 20, 5003})
          for (const int most_inputs : {64, 3}) {
            const CommCall call = call_of(kind, nodes, elements, dtype);
            World world(nodes, call, most_inputs);
            world.run();
            for (int rank = 0; rank < nodes.ranks(); ++rank)
              ASSERT_EQ(world.result(rank), world.expected(rank))
                  << ::testing::PrintToString(shape) << " " << describe(call) << " rank " << rank << " of "
                  << most_inputs;
          }
  }
}

TEST(RankTreePlan, OfManyRanksToo) {
  // These worlds have more subtrees than one sum may have.
  for (const std::vector<int>& shape : {std::vector<int>(130, 1), std::vector<int>(70, 3)}) {
    const WorldShape nodes(shape);
    const CommCall call = call_of(CommKind::all_reduce, nodes, 10'000, DType::f32);
    World world(nodes, call, 64);
    world.run();
    for (const int rank : {0, nodes.ranks() / 2, nodes.ranks() - 1})
      EXPECT_EQ(world.result(rank), world.expected(rank)) << rank;
  }
}

/// Two nodes of eight ranks send each other half of their sums once and the whole result once, in equal parts per rank.
TEST(RankTreePlan, ANodesRanksShareItsLink) {
  constexpr int64_t kElements = 1 << 16, kBytes = 4 * kElements;
  const WorldShape nodes({8, 8});
  const CommCall call = call_of(CommKind::all_reduce, nodes, kElements, DType::f32);
  const World world(nodes, call, 64);
  for (int rank = 0; rank < nodes.ranks(); ++rank) EXPECT_EQ(world.bytes_leaving(rank), kBytes / 8) << rank;
  // For 16-bit values, sums are sent in f32, and results in 16 bits.
  const CommCall halves = call_of(CommKind::all_reduce, nodes, kElements, DType::bf16);
  EXPECT_EQ(World(nodes, halves, 64).bytes_leaving(3), (4 + 2) * kElements / 2 / 8);
  const WorldShape alone({1, 1});
  const CommCall one_each = call_of(CommKind::all_reduce, alone, kElements, DType::bf16);
  EXPECT_EQ(World(alone, one_each, 64).bytes_leaving(0), 2 * kElements);
}

/// With equal nodes a rank has one message for each neighbor in each direction, and one for each other node.
TEST(RankTreePlan, EqualNodesHaveFewMessages) {
  const WorldShape nodes({4, 4, 4});
  const CommCall call = call_of(CommKind::all_reduce, nodes, 1 << 16, DType::f32);
  const World world(nodes, call, 64);
  for (int rank = 0; rank < nodes.ranks(); ++rank) {
    std::vector<size_t> messages;
    for (const RankStage& stage : world.plan(rank).stages) messages.push_back(stage.messages.size());
    EXPECT_EQ(messages, (std::vector<size_t>{2 * 3, 2 * 2, 2 * 2, 2 * 3})) << rank;
  }
}

TEST(RankTreePlan, ALargeBufferIsSummedInPieces) {
  std::vector<float> values(10);
  const CommBuffer buffer{.data = values.data(), .elements = 10, .dtype = DType::f32};
  const auto pieces = pieces_of({.kind = CommKind::reduce, .in = buffer, .out = buffer, .other = 1}, 16);
  ASSERT_EQ(pieces.size(), 3u);
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(pieces[p].in.data, values.data() + 4 * p);
    EXPECT_EQ(pieces[p].out.data, pieces[p].in.data);
    EXPECT_EQ(pieces[p].in.elements, p < 2 ? 4 : 2);
    EXPECT_EQ(pieces[p].other, 1);
  }
}

TEST(RankTreePlan, StagingIsLessThanThreeTimesTheBuffer) {
  for (const std::vector<int>& shape : kNodes) {
    const WorldShape nodes(shape);
    const CommCall call = call_of(CommKind::all_reduce, nodes, 1 << 16, DType::f32);
    const World world(nodes, call, 64);
    for (int rank = 0; rank < nodes.ranks(); ++rank)
      EXPECT_LT(world.plan(rank).staging_bytes, 3 * (4 << 16)) << ::testing::PrintToString(shape) << " rank " << rank;
  }
}

}  // namespace
}  // namespace dptrain
