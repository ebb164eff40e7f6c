#pragma once

#include <memory>
#include <string>

#include "data/synthetic.h"
#include "models/pyramidnet.h"
#include "parallel/half_used_net.h"
#include "parallel/residual_net.h"
#include "parallel/small_bert.h"

namespace dptrain::parallel {

/// A net of the parity matrix, with what it is trained on.
struct ParityNet {
  std::string name;
  models::ModelSpec model = {};
  models::ModelInput input = {};
  Datasets data = {};
  double learning_rate = 0.05;
  bool batch_norms = false;
  bool tied = false;  ///< stages share a parameter, whose gradients a pipeline adds in an order of its own
  /// How far the movement of a tensor may be from that of one device, over its length; see ParityMatrix.
  double bound = 5e-5;
};

/// ../CMakeLists.txt has a test of each.
inline constexpr const char* kParityNets[] = {"lenet", "resnet", "pyramidnet", "bert", "half_used"};

inline ParityNet parity_net(const std::string& name, int64_t samples) {
  ParityNet net{.name = name, .input = {.image = {1, 28, 28}, .classes = 10}};
  if (name == "bert") {
    net.model = small_bert(3, 0.1f);
    net.input = {.text = kText};
    net.data = sentences(samples);
    net.tied = true;
    return net;
  }
  net.data = digits(samples, 10);
  if (name == "half_used") net.model = half_used_net();
  if (name == "lenet") net.model = models::find_model("lenet");
  if (name == "resnet") net.model = residual_net();
  if (name == "pyramidnet") {
    const models::PyramidNetOptions sizes{.alpha = 12, .depth = 2, .blocks = 1};
    net.model = {.name = name, .build = [sizes](const nn::LayerOptions& layers, const models::ModelInput& input) {
                   return build_pyramidnet(sizes, layers, input);
                 }};
    net.input.image = {3, 32, 32};
    net.data.train = std::make_shared<ByteImages>(make_synthetic({.samples = samples, .image_shape = net.input.image}),
                                                  Normalization{});
  }
  net.batch_norms = name == "resnet" || name == "pyramidnet";
  if (net.batch_norms) {
    // Those of few samples make more of roundings, and a rounding may decide a ReLU otherwise.
    net.learning_rate = 0.02;
    net.bound = name == "resnet" ? 1e-3 : 2e-2;
  }
  return net;
}

}  // namespace dptrain::parallel
