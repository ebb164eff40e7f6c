#include "plan/exchange_figures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/call_times.h"
#include "support/expect_error.h"
#include "support/process.h"
#include "support/source_tree.h"

namespace dptrain {
namespace {

using nlohmann::json;

class ExchangeFiguresTest : public ::testing::Test {
 protected:
  static json all_reduce(int64_t bytes, double seconds) {
    return {{"collective", "all_reduce"}, {"bytes", bytes}, {"seconds", seconds}};
  }
  static json document(const std::vector<json>& rows) {
    return {{"devices", {"cpu:0", "cpu:1", "cpu:0"}}, {"processes", {0, 0, 1}}, {"comm", rows}};
  }
  plan::ExchangeFigures read(const json& document) const {
    folder_.write("comm.json", document.dump());
    return plan::read_exchange_figures(folder_.path() / "comm.json");
  }
  /// The time that a plan then gives an all_reduce of the same processes.
  static double planned_s(const plan::ExchangeFigures& figures, int64_t bytes) {
    const plan::DeviceFigures device;
    plan::CallTimes calls({.world = WorldShape({2, 1}), .devices = {}, .figures = device, .hosts = plan::HostLinks()});
    calls.set_exchange(figures);
    const CommBuffer buffer{.elements = bytes / 4, .dtype = DType::f32};
    const LoggedCall call{.call = {.kind = CommKind::all_reduce, .in = buffer, .out = buffer}, .ranks = 3};
    return calls.cost(std::vector{&call}).seconds;
  }

  testing::ScratchFolder folder_;
};

TEST_F(ExchangeFiguresTest, MakeAPlanOfWhatWasMeasured) {
  const auto figures =
      read(document({all_reduce(24, 2e-4), all_reduce(1'200'000, 3e-3), all_reduce(24'000'000, 0.03)}));
  EXPECT_GT(figures.message_s, 0);
  EXPECT_NEAR(planned_s(figures, 24), 2e-4, 1e-6);
  EXPECT_NEAR(planned_s(figures, 24'000'000), 0.03, 1e-6);
}

TEST_F(ExchangeFiguresTest, OfOneSizeAreARate) {
  const auto figures = read(document({all_reduce(24'000'000, 0.03)}));
  EXPECT_EQ(figures.message_s, 0);
  EXPECT_NEAR(planned_s(figures, 24'000'000), 0.03, 1e-6);
}

TEST_F(ExchangeFiguresTest, OfSmallBuffersAloneAreRefused) {
  testing::expect_error(ExitCode::config, {"at least one MiB", "at most 24 bytes", "--mb 0.0001,25"},
                        [&] { read(document({all_reduce(24, 2e-4)})); });
}

TEST_F(ExchangeFiguresTest, OfASmallBufferThatTookAsLongAsALargeOneStayRates) {
  const auto figures = read(document({all_reduce(24, 1), all_reduce(24'000'000, 1)}));
  EXPECT_GT(figures.bytes_per_s, 0);
  EXPECT_NEAR(planned_s(figures, 24'000'000), 1, 1e-6);
}

TEST_F(ExchangeFiguresTest, OfAnythingElseAreRefused) {
  json one = document({all_reduce(24, 1)});
  one["processes"] = {0, 0, 0};
  testing::expect_error(ExitCode::config, {"of several processes, got one process"}, [&] { read(one); });
  json gpus = document({all_reduce(24, 1)});
  gpus["devices"][2] = "cuda:0";
  testing::expect_error(ExitCode::config, {"got cuda:0"}, [&] { read(gpus); });
  testing::expect_error(ExitCode::bad_data, {"got no all_reduce"}, [&] { read(document({})); });
  for (const json& processes :
       {json{0, -1, 1}, json{0, 0, 5}, json{0, 1}, json{1, 1, 0}, json{0, 1e18, 1}, json{0, 0.5, 1}}) {
    json odd = document({all_reduce(24, 1)});
    odd["processes"] = processes;
    testing::expect_error(ExitCode::bad_data, {"comm.json", "processes: ["}, [&] { read(odd); });
  }
  for (const auto& [bytes, seconds] : {std::pair{int64_t{-400}, 1.0}, {int64_t{1} << 60, 1.0}, {0, 1.0}})
    testing::expect_error(ExitCode::bad_data, {"got bytes: "}, [&] { read(document({all_reduce(bytes, seconds)})); });
  for (const double seconds : {0.0, -1.0, 1e300})
    testing::expect_error(ExitCode::bad_data, {"got seconds: "}, [&] { read(document({all_reduce(24, seconds)})); });
  testing::expect_error(ExitCode::bad_data, {"comm.json: expected the output of dptrain bench comm --json"}, [&] {
    read({{"devices", 3}});
  });
  testing::expect_error(ExitCode::missing_file, {"a folder"}, [&] { plan::read_exchange_figures(folder_.path()); });
  testing::expect_error(ExitCode::missing_file, {"no such file"},
                        [&] { plan::read_exchange_figures(folder_.path() / "none.json"); });
}

}  // namespace
}  // namespace dptrain
