// The name that is suggested for a mistyped one.

#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace dptrain {
namespace {

const std::vector<std::string> kKeys = {"batch_size", "learning_rate", "momentum", "seed"};

TEST(EditDistance, CountsTheFourEdits) {
  EXPECT_EQ(edit_distance("momentum", "momentum"), 0);
  EXPECT_EQ(edit_distance("momentm", "momentum"), 1);    // insert
  EXPECT_EQ(edit_distance("momentuum", "momentum"), 1);  // delete
  EXPECT_EQ(edit_distance("mumentum", "momentum"), 1);   // replace
  EXPECT_EQ(edit_distance("momnetum", "momentum"), 1);   // swap of neighbours
  EXPECT_EQ(edit_distance("", "seed"), 4);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3);
}

TEST(NearestName, FindsATypedSlip) {
  EXPECT_EQ(nearest_name("batchsize", kKeys), "batch_size");
  EXPECT_EQ(nearest_name("batch_sise", kKeys), "batch_size");
  EXPECT_EQ(nearest_name("sede", kKeys), "seed");
  EXPECT_EQ(nearest_name("momentum", kKeys), "momentum");
}

TEST(NearestName, UpperAndLowerCaseAreAlike) {
  const std::vector<std::string> names = {"fp32", "bf16", "fp16"};
  EXPECT_EQ(nearest_name("BF16", names), "bf16");
  EXPECT_EQ(nearest_name("Batch_Size", kKeys), "batch_size");
}

TEST(NearestName, FindsWhatInitialsStandFor) {
  EXPECT_EQ(nearest_name("lr", kKeys), "learning_rate");
  EXPECT_EQ(nearest_name("BS", kKeys), "batch_size");
  EXPECT_EQ(nearest_name("s", kKeys), "") << "one letter is nobody's initials";
  EXPECT_EQ(nearest_name("", kKeys), "");
}

TEST(NearestName, FindsWhatANameBegins) {
  const std::vector<std::string> models = {"lenet", "resnet18", "pyramidnet", "bert"};
  EXPECT_EQ(nearest_name("resnet", models), "resnet18") << "which is two edits from lenet";
  EXPECT_EQ(nearest_name("Pyramid", models), "pyramidnet");
  EXPECT_EQ(nearest_name("lenett", models), "lenet");
  const std::vector<std::string> names = {"epochs_in_all", "epoch"};
  EXPECT_EQ(nearest_name("epoc", names), "epoch") << "one edit";
}

TEST(NearestName, OffersNothingFarOff) {
  EXPECT_EQ(nearest_name("mom", kKeys), "");
  EXPECT_EQ(nearest_name("soot", kKeys), "");           // two of four letters
  EXPECT_EQ(nearest_name("lerning_raets", kKeys), "");  // three edits, however long the name
  EXPECT_EQ(nearest_name(std::string(1000, 'x'), kKeys), "");
  EXPECT_EQ(nearest_name("seed", {}), "");
}

TEST(NearestName, TakesTheNearerOfTwo) {
  const std::vector<std::string> names = {"cpu:10", "cpu:0"};
  EXPECT_EQ(nearest_name("cpu:", names), "cpu:0");
}

TEST(Suggestion, AsksOrListsWhatIsKnown) {
  EXPECT_EQ(suggestion("sead", kKeys), "did you mean 'seed'?");
  EXPECT_EQ(suggestion("optimizer", kKeys), "choose one of: batch_size, learning_rate, momentum, seed");
}

}  // namespace
}  // namespace dptrain
