// The worked examples of docs/layers.md are complete configurations. They train on gray images, on color images, and on
// text.

#include <gtest/gtest.h>

#include <sstream>

#include "config/config_document.h"
#include "support/process.h"
#include "support/source_tree.h"
#include "train/experiment_of.h"

namespace dptrain::train {
namespace {

/// The page's YAML blocks that are complete configurations.
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
      if (block.find("\nepochs:") != std::string::npos || block.find("\nsteps:") != std::string::npos)
        blocks.push_back(block);
    } else if (inside) {
      block += line + "\n";
    }
  }
  return blocks;
}

/// Overrides that shorten an example to two steps: images of both kinds, or a little of the text that it names.
std::vector<std::vector<std::string>> short_ways(const std::string& block) {
  if (block.find("\ndataset: {name: text") != std::string::npos)
    return {{"dataset.limit=8", "dataset.test_limit=4", "steps=2"}};
  const std::string images = "dataset={name: synthetic, samples: 8, test_samples: 4, shape: ";
  return {{images + "[1, 28, 28]}", "epochs=1"}, {images + "[3, 32, 32]}", "epochs=1"}};
}

TEST(LayersDocs, ExamplesTrain) {
  const auto blocks = examples();
  ASSERT_EQ(blocks.size(), 4u);
  for (const std::string& block : blocks) {
    for (const auto& way : short_ways(block)) {
      SCOPED_TRACE(block.substr(0, block.find('\n')) + " with " + way[0]);
      ConfigNode root = parse_config(block, "layers.md");
      for (const std::string& assignment : way) override_config(root, assignment);
      for (const char* assignment : {"batch_size=4", "threads=1"}) override_config(root, assignment);
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
