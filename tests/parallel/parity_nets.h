#pragma once

#include <memory>
#include <string>

#include "data/synthetic.h"
#include "models/frozen.h"
#include "models/parameter_groups.h"
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
  bool tied = false;  ///< whether stages share a parameter, whose gradients a pipeline adds in an order of its own
  /// The largest allowed difference between a tensor's movement and its movement on one device, relative to the length
  /// of that movement; see ParityMatrix.
  double bound = 5e-5;
  std::vector<std::string> frozen = {};
};

/// The nets of the parity matrix. ../CMakeLists.txt has a test of each.
inline constexpr const char* kParityNets[] = {"lenet",     "resnet",       "pyramidnet", "bert",
                                              "half_used", "tuned_resnet", "tuned_bert"};

/// The net as in fine-tuning: some parameters are frozen, and some of the others train faster.
inline ParityNet tuned(ParityNet net, const std::string& name, std::vector<std::string> frozen,
                       std::vector<std::string> faster) {
  net.name = name;
  net.model = models::with_parameter_groups(
      models::with_frozen(net.model, frozen, "net"),
      {{.of = std::move(faster), .learning_rate = 2.5}, {.dimensions = 1, .learning_rate = 0.5, .weight_decay = 0}});
  net.frozen = std::move(frozen);
  return net;
}

inline ParityNet parity_net(const std::string& name, int64_t samples) {
  // Frozen are the first layers, some in the middle, and one of the two parameters of a batch norm.
  if (name == "tuned_resnet")
    return tuned(parity_net("resnet", samples), name,
                 {"conv1", "bn1", "residual1", "residual2.conv2", "residual2.bn3.weight"}, {"fc1", "residual2.conv1"});
  // Frozen are the word embeddings with the parameter tied to them, a layer in the middle, and all that the last stage
  // has for one of the losses.
  if (name == "tuned_bert")
    return tuned(parity_net("bert", samples), name,
                 {"bert.embeddings.word_embeddings", "bert.encoder.layer.1", "cls.predictions"},
                 {"bert.encoder.layer.0", "cls.seq_relationship"});
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
    // Batch norms of few samples amplify rounding errors, and a rounding error may flip a ReLU.
    net.learning_rate = 0.02;
    net.bound = name == "resnet" ? 1e-3 : 2e-2;
  }
  return net;
}

}  // namespace dptrain::parallel
