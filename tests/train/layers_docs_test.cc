// The worked examples of docs/layers.md are complete configurations that train, on grey images and on color.

#include <gtest/gtest.h>

#include <sstream>

#include "config/config_document.h"
#include "support/process.h"
#include "support/source_tree.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

/// The YAML blocks of the page that are whole configurations.
std::vector<std::string> examples() {
  std::istringstream page(testing::text_of(testing::source_file("docs/layers.md")));
  std::vector<std::string> blocks;
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```yaml") {
      inside = true;
      block.clear();
    } else if (line == "```") {
      inside = false;
      if (block.find("\nepochs:") != std::string::npos) blocks.push_back(block);
    } else if (inside) {
      block += line + "\n";
    }
  }
  return blocks;
}

TEST(LayersDocs, ExamplesTrain) {
  const auto blocks = examples();
  ASSERT_EQ(blocks.size(), 3u);
  for (const std::string& block : blocks) {
    for (const char* shape : {"[1, 28, 28]", "[3, 32, 32]"}) {
      SCOPED_TRACE(block.substr(0, block.find('\n')) + " on " + shape);
      ConfigNode root = parse_config(block, "layers.md");
      override_config(root,
                      std::string("dataset={name: synthetic, samples: 8, test_samples: 4, shape: ") + shape + "}");
      for (const char* assignment : {"batch_size=4", "epochs=1", "threads=1"}) override_config(root, assignment);
      Experiment experiment;
      const ConfigSession session(root, [&](ConfigReader& reader) { experiment = read_experiment(reader, "example"); });
      const testing::ScratchFolder scratch;
      RunDirectory directory(scratch.path(), EarlierRun::overwrite);
      RecordingObserver observer;
      const StopSignal stop = 0;
      EXPECT_EQ(Trainer(experiment, experiment.dataset.open()).run(directory, observer, stop).steps, 2);

      Experiment again;
      const ConfigSession reread(parse_config(session.resolved_yaml(), "config.yaml"),
                                 [&](ConfigReader& reader) { again = read_experiment(reader, "example"); });
      EXPECT_EQ(reread.resolved_yaml(), session.resolved_yaml());
    }
  }
}

}  // namespace
}  // namespace dptrain::train
