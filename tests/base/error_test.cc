// The sentences that a user reads.

#include "base/error.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "support/expect_error.h"

namespace dptrain {
namespace {

TEST(Mistake, HasFourParts) {
  const Mistake whole{.where = "configs/a.yaml:12: devices",
                      .expected = "expected an integer from 1 to 64",
                      .got = "'many'",
                      .advice = "write devices: 2"};
  EXPECT_EQ(whole.sentence(),
            "configs/a.yaml:12: devices: expected an integer from 1 to 64, got 'many'; write devices: 2");
}

TEST(Mistake, LeavesOutWhatIsEmpty) {
  EXPECT_EQ((Mistake{.where = "a", .expected = "b", .got = "", .advice = "c"}.sentence()), "a: b; c");
  EXPECT_EQ((Mistake{.where = "", .expected = "b", .got = "c", .advice = ""}.sentence()), "b, got c");
  EXPECT_EQ((Mistake{.where = "a", .expected = "", .got = "", .advice = ""}.sentence()), "a");
}

TEST(Error, SaysTheFirstOfManyAndCountsTheRest) {
  const Error many(ExitCode::config, std::vector<std::string>{"one", "two", "three"});
  EXPECT_STREQ(many.what(), "one (and 2 more)");
  EXPECT_EQ(many.lines(), (std::vector<std::string>{"one", "two", "three"}));
  const Error one(ExitCode::io, std::string("disk full"));
  EXPECT_STREQ(one.what(), "disk full");
  EXPECT_EQ(one.lines().size(), 1u);
  EXPECT_EQ(static_cast<int>(one.code()), 74);
}

TEST(Error, IsALineWhateverAUsersTextHas) {
  const Error named(ExitCode::config,
                    Mistake{.where = "name", .expected = "expected a folder", .got = "'a\nb\tc\x1b'", .advice = ""});
  EXPECT_STREQ(named.what(), "name: expected a folder, got 'a\\nb\\tc\\x1b'");
  EXPECT_EQ(named.lines(), std::vector<std::string>{named.what()});
  EXPECT_STREQ(Error(ExitCode::io, std::string("Größe, ½")).what(), "Größe, ½") << "as it was written";
}

TEST(Check, NamesPlaceConditionAndValues) {
  const int wheels = 3;
  testing::expect_error(ExitCode::bug, {"error_test.cc:", "a car with 3 wheels", "wheels == 4", "bug in dptrain"},
                        [&] { DPTRAIN_CHECK(wheels == 4, "a car with {} wheels", wheels); });
  EXPECT_NO_THROW(DPTRAIN_CHECK(wheels == 3, "unused"));
}

}  // namespace
}  // namespace dptrain
