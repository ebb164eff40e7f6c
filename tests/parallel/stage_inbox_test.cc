// What a device sends to another device's stages arrives in the order in which it was sent, whichever is needed first.
#include "parallel/stage_inbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "parallel/rank_team.h"

namespace dptrain::parallel {
namespace stage_inbox_test {

constexpr DeviceId kFirst{DeviceKind::cpu, 0}, kSecond{DeviceKind::cpu, 1};

TEST(StageInbox, KeepsWhatComesBeforeWhatIsNeeded) {
  RankTeam team({.devices = {kFirst, kSecond}, .threads = {1, 1}, .timeout_s = 20});
  team.run("test", [&](int rank) {
    Device& device = team.device(rank);
    const StageLink::Ends ends{.tensors = team.communicator(rank), .forms = team.host_communicator(rank)};
    const StageLink::Peer other{.rank = 1 - rank, .kind = DeviceKind::cpu};
    StageLink activations(device, ends, other), gradients(device, ends, other);
    const StageLink::Signature training = {1, 4};
    if (rank == 1) {
      std::vector<std::unique_ptr<CommWork>> sent;
      const auto send = [&](StageLink& link, float value) {
        sent.push_back(
            link.start_send(training, {.value = Tensor::from(device, {2}, std::vector<float>{value, value + 0.5f})}));
      };
      send(activations, 1);
      send(gradients, 2);
      send(activations, 3);
      for (const auto& work : sent) work->wait();
      return;
    }
    StageInbox inbox;
    const std::optional<bool> no_gradient = false;
    inbox.add({.link = activations, .micro_batch = 0, .signature = training});
    inbox.add({.link = gradients, .micro_batch = 0, .signature = training, .comes = &no_gradient});
    inbox.add({.link = gradients, .micro_batch = 1, .signature = training});
    inbox.add({.link = activations, .micro_batch = 1, .signature = training});
    const auto received = [&](StageLink& link, int64_t micro_batch) {
      return inbox.receive(link, micro_batch).value.values();
    };
    inbox.expect(gradients, 1);  // its shape isn't known yet
    EXPECT_EQ(received(gradients, 1), (std::vector<float>{2, 2.5f}));
    EXPECT_ANY_THROW(inbox.end()) << "two are yet to be received, of which one is here";
    EXPECT_EQ(received(activations, 0), (std::vector<float>{1, 1.5f}));
    inbox.expect(activations, 1);
    inbox.expect(activations, 0);  // it has arrived
    EXPECT_EQ(received(activations, 1), (std::vector<float>{3, 3.5f}));
    EXPECT_NO_THROW(inbox.end()) << "a gradient that doesn't come isn't waited for";
    EXPECT_ANY_THROW(inbox.receive(activations, 2)) << "nobody sends it";
  });
}

}  // namespace stage_inbox_test
}  // namespace dptrain::parallel
