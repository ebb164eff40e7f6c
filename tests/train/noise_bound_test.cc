// How far a layer's values may be from those of `single`.
#include "train/noise_bound.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/verification.h"

namespace dptrain::train {
namespace {

TEST(NoiseBound, IsNoMoreThanHalfALayerThatIsNotAllNoise) {
  EXPECT_EQ(noise_bound(0, 0).bound, 80.0 / (1 << 24)) << "a few roundings";
  EXPECT_EQ(noise_bound(1e-3, 1e-4).bound, 1e-2) << "ten times that of a rounding";
  EXPECT_EQ(noise_bound(1e-3, 0.1).bound, 0.1) << "that of many";
  EXPECT_EQ(noise_bound(1e-3, 16).bound, 0.5) << "that of many, capped";
  EXPECT_FALSE(noise_bound(1e-3, 16).all_noise);
  EXPECT_FALSE(noise_bound(0.05, 16).all_noise);
  EXPECT_TRUE(noise_bound(0.051, 0).all_noise) << "less than twenty times what a rounding changes";
}

TEST(NoiseBound, OfAGradientIsAtLeastThatOfMostOthers) {
  const auto gradient = [](const char* name) {
    return LayerDifference{.pass = ComparedPass::backward, .step = 1, .layer = name};
  };
  const std::vector<LayerDifference> layers = {{.pass = ComparedPass::forward, .step = 1, .layer = "c"},
                                               gradient("c"),
                                               gradient("noise"),
                                               gradient("b"),
                                               gradient("a"),
                                               {.pass = ComparedPass::weights, .step = 1, .layer = "a"},
                                               {.pass = ComparedPass::weights, .step = 1, .layer = "c"}};
  std::vector<NoiseBound> bounds = {{.bound = 1e-6}, {.bound = 1e-4}, {.bound = 9, .all_noise = true},
                                    {.bound = 1e-2}, {.bound = 2e-2}, {.bound = 1e-3},
                                    {.bound = 1e-5}};
  allow_for_flips(layers, bounds);
  EXPECT_EQ(bounds[0].bound, 1e-6) << "forward passes don't flip";
  EXPECT_EQ(bounds[1].bound, 1e-2) << "the median of the three";
  EXPECT_EQ(bounds[2].bound, 9);
  EXPECT_EQ(bounds[3].bound, 1e-2);
  EXPECT_EQ(bounds[4].bound, 2e-2);
  EXPECT_EQ(bounds[5].bound, 1e-3) << "whose gradient's stayed";
  EXPECT_DOUBLE_EQ(bounds[6].bound, 1e-3) << "whose gradient's rose a hundredfold";
}

TEST(VerifiedLayer, WhatIsAllNoiseOnlyDivergesWhereItIsNoNumber) {
  VerifiedLayer layer;
  layer.found.difference = 100;
  layer.allowed = {.bound = 2, .all_noise = true};
  EXPECT_FALSE(layer.diverges());
  EXPECT_EQ(layer.share(), 0);
  layer.found.difference = NAN;
  EXPECT_TRUE(layer.diverges());
}

TEST(VerifiedLayer, ABoundOfZeroAllowsTheSameBitsAlone) {
  VerifiedLayer layer;
  EXPECT_FALSE(layer.diverges());
  EXPECT_EQ(layer.share(), 0);
  layer.found.difference = 1e-12;
  EXPECT_TRUE(layer.diverges());
  EXPECT_TRUE(std::isinf(layer.share()));
}

TEST(VerifiedLayer, WhatIsNotANumberDiverges) {
  VerifiedLayer layer;
  layer.found.difference = NAN;
  layer.allowed.bound = 1;
  EXPECT_TRUE(layer.diverges());
  EXPECT_TRUE(std::isinf(layer.share()));
}

}  // namespace
}  // namespace dptrain::train
