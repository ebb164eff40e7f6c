// Pipelines whose stages are in several processes match those in one process bit for bit: losses, weights, what
// evaluations and checkpoints see, and the bytes that each rank sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "parallel/pipeline_schedules.h"
#include "parallel/played_processes.h"
#include "parallel/residual_net.h"
#include "parallel/small_bert.h"
#include "parallel/trained_state.h"

namespace dptrain::parallel {
namespace pipeline_processes_test {

/// Batches of 26 samples, and a last one of 7, where some replicas have no samples in some micro-batches.
constexpr int64_t kBatch = 26, kSamples = 3 * kBatch + 7, kSteps = 4;

struct Case {
  std::string name;
  StrategyOptions options;
  std::vector<std::vector<int>> processes;  ///< each world's ranks per process
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

StrategyOptions pipeline(const std::vector<std::string>& stages, int replicas = 1,
                         PipelineSchedule schedule = PipelineSchedule::one_forward_one_back) {
  return {.name = replicas > 1 ? "hybrid" : "model_parallel",
          .devices = replicas * static_cast<int>(stages.size()),
          .sgd = {.momentum = 0.9},
          .micro_batches = 4,
          .pipeline = {.cut = {.entries = stages}, .schedule = schedule, .micro_batches = 4, .replicas = replicas}};
}

StrategyOptions around(StrategyOptions options) {
  options.devices /= 2;
  options.pipeline.schedule = kInterleaved;
  options.pipeline.stages_per_device = 2;
  return options;
}

StrategyOptions residual(StrategyOptions options, BatchNormMode mode = BatchNormMode::local) {
  options.net = residual_net();
  options.batch_norm = mode;
  return options;
}

StrategyOptions with_everything(StrategyOptions options) {
  options.adam = optim::AdamSettings{.weight_decay = 0.1, .decoupled = true};
  options.clip_norm = 0.5;
  options.average_decay = 0.5;
  options.label_smoothing = 0.1;
  return options;
}

StrategyOptions in(Precision precision, StrategyOptions options) {
  options.precision = precision;
  return options;
}

/// A run's result. With several processes, rank 0's process has it; each process has the costs of its own ranks.
struct Outcome {
  Trained trained;
  std::optional<Score> score;
  TrainingState state;
  std::optional<double> spread;
  std::optional<PipelineFigures> figures;
  std::vector<RankCosts> costs;
};

Outcome outcome_of(Strategy& strategy, const Datasets& data, int64_t micro_batches) {
  Outcome outcome;
  outcome.trained.losses = train(strategy, data, kSteps, kBatch, 0.05, micro_batches);
  outcome.spread = strategy.statistics_spread();
  outcome.figures = strategy.take_pipeline_figures();
  outcome.score = strategy.evaluate(*data.test, {.stopped = [] { return false; }});
  outcome.trained.state = strategy.state_dict();
  outcome.state = strategy.training_state();
  for (int rank = 0; rank < strategy.ranks(); ++rank) outcome.costs.push_back(strategy.take_costs(rank));
  return outcome;
}

void expect_same(const Outcome& got, const Outcome& expected) {
  expect_same_bits(got.trained, expected.trained);
  ASSERT_TRUE(got.score.has_value());
  EXPECT_EQ(got.score->samples, expected.score->samples);
  ASSERT_EQ(got.score->outputs.size(), expected.score->outputs.size());
  for (size_t k = 0; k < got.score->outputs.size(); ++k) {
    EXPECT_EQ(got.score->outputs[k].loss_sum, expected.score->outputs[k].loss_sum);
    EXPECT_EQ(got.score->outputs[k].correct, expected.score->outputs[k].correct);
    EXPECT_EQ(got.score->outputs[k].counted, expected.score->outputs[k].counted);
  }
  expect_same_bits(got.state.model, expected.state.model);
  expect_same_bits(got.state.optimizer, expected.state.optimizer);
  expect_same_bits(got.state.average, expected.state.average);
  EXPECT_EQ(got.state.loss_scale.has_value(), expected.state.loss_scale.has_value());
  EXPECT_EQ(got.spread, expected.spread);
  ASSERT_TRUE(got.figures.has_value());
  EXPECT_EQ(got.figures->stages, expected.figures->stages);
  EXPECT_EQ(got.figures->micro_batches, expected.figures->micro_batches);
  EXPECT_GT(got.figures->bubble.value_or(0), 0) << "all stages' times are known";
  ASSERT_EQ(got.costs.size(), expected.costs.size());
  for (size_t rank = 0; rank < got.costs.size(); ++rank) {
    EXPECT_EQ(got.costs[rank].samples, expected.costs[rank].samples) << "rank " << rank;
    EXPECT_EQ(got.costs[rank].communication.bytes, expected.costs[rank].communication.bytes) << "rank " << rank;
    EXPECT_EQ(got.costs[rank].communication.collectives, expected.costs[rank].communication.collectives)
        << "rank " << rank;
  }
}

void expect_bits_of_one_process(const Case& one, const StrategyContext& context, const Datasets& data) {
  const Outcome expected = outcome_of(*make_strategy(one.options, context), data, one.options.micro_batches);
  for (const std::vector<int>& ranks : one.processes) {
    SCOPED_TRACE(::testing::PrintToString(ranks));
    std::vector<Outcome> outcomes(ranks.size());
    const auto sentences = PlayedProcesses(one.options, context, ranks).run([&](int process, Strategy& strategy) {
      outcomes[static_cast<size_t>(process)] = outcome_of(strategy, data, one.options.micro_batches);
    });
    for (const std::string& sentence : sentences) ASSERT_EQ(sentence, "");
    Outcome& of_main = outcomes.front();
    for (size_t p = 1; p < outcomes.size(); ++p) {
      std::ranges::move(outcomes[p].costs, std::back_inserter(of_main.costs));
      EXPECT_TRUE(outcomes[p].state.model.empty()) << "a checkpoint is the main process's";
    }
    expect_same(of_main, expected);
  }
}

class PipelineProcesses : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineProcesses, EndInTheBitsOfOneProcess) {
  const Case& one = GetParam();
  expect_bits_of_one_process(one, context_of(one.options), digits(kSamples, 333));
}

const std::vector<std::string> kTwo = {"1", "2"}, kThree = {"1", "1", "1"}, kCut = {"conv1", "residual2"},
                               kFour = {"conv1", "residual1", "residual2", "fc1"},
                               kSix = {"conv1", "bn1", "residual1", "residual2", "global_avg_pool1", "fc1"};

INSTANTIATE_TEST_SUITE_P(
    Cases, PipelineProcesses,
    ::testing::Values(
        Case{"two_stages", pipeline(kTwo), {{1, 1}}}, Case{"gpipe", pipeline(kTwo, 1, kGpipe), {{1, 1}}},
        Case{"three_stages", with_everything(pipeline(kThree)), {{1, 2}, {2, 1}, {1, 1, 1}}},
        Case{"four_stages", residual(pipeline(kFour)), {{2, 2}, {1, 2, 1}, {3, 1}, {1, 3}}},
        Case{"interleaved", with_everything(residual(around(pipeline(kFour)))), {{1, 1}}},
        Case{"interleaved_on_three", residual(around(pipeline(kSix))), {{1, 2}, {2, 1}, {1, 1, 1}}},
        Case{"hybrid_interleaved", residual(around(pipeline(kFour, 2))), {{2, 2}, {1, 3}, {1, 2, 1}}},
        Case{"bf16", in(Precision::bf16, with_everything(pipeline(kThree))), {{1, 2}}},
        Case{"hybrid", with_everything(pipeline(kTwo, 2)), {{2, 2}, {1, 3}, {3, 1}, {1, 2, 1}, {1, 1, 1, 1}}},
        Case{"hybrid_gpipe", residual(pipeline(kCut, 2, kGpipe)), {{2, 2}, {1, 3}}},
        Case{"three_replicas", residual(pipeline(kCut, 3)), {{3, 3}, {2, 4}}},
        Case{"hybrid_of_four_stages", residual(pipeline(kFour, 2)), {{3, 2, 3}, {1, 7}}},
        Case{"sync", residual(pipeline(kCut, 2), BatchNormMode::sync), {{2, 2}, {1, 3}}},
        // The last stage has no batch norm, and must know that the first stage shares statistics.
        Case{"sync_of_one_stage",
             residual(pipeline({"conv1", "global_avg_pool1"}, 2), BatchNormMode::sync),
             {{1, 1, 1, 1}}},
        Case{"average", residual(pipeline(kCut, 2), BatchNormMode::average), {{2, 2}, {1, 3}}},
        Case{"first", residual(pipeline(kCut, 2), BatchNormMode::first), {{2, 2}, {1, 3}}}),
    [](const ::testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(PipelineProcessesOfText, TiedWeightsStayAlikeOverProcesses) {
  Case one{"text", with_everything(pipeline({"1", "1", "1"}, 2)), {{3, 3}, {1, 5}, {2, 2, 2}}};
  StrategyContext context = context_of(one.options);
  context.replica.model = small_bert(2, 0.1f);
  context.replica.input = {.text = kText};
  expect_bits_of_one_process(one, context, sentences(kSamples));
}

TEST(PipelineProcessesState, GoesOnInAnyProcesses) {
  const StrategyOptions options = residual(with_everything(pipeline(kCut, 2)));
  const Datasets data = digits(2 * kBatch, 10);
  const auto steps = [&](Strategy& strategy) { train(strategy, data, 2, kBatch, 0.05, 4); };
  const auto whole = make_strategy(options);
  steps(*whole);
  const TrainingState half = whole->training_state();
  steps(*whole);
  const State expected = whole->state_dict();

  State got;
  TrainingState of_processes;
  const PlayedProcesses processes(options, context_of(options), {1, 3});
  for (const std::string& sentence : processes.run([&](int process, Strategy&strategy) {
         strategy.restore(half);
         steps(strategy);
         const State state = strategy.state_dict();
         if (process == 0) got = state;
       }))
    EXPECT_EQ(sentence, "");
  expect_same_bits(got, expected);
  processes.run([&](int process, Strategy& strategy) {
    steps(strategy);
    TrainingState state = strategy.training_state();
    if (process == 0) of_processes = std::move(state);
  });
  const auto resumed = make_strategy(options);
  resumed->restore(of_processes);
  steps(*resumed);
  expect_same_bits(resumed->state_dict(), expected);
}

TEST(PipelineProcessesState, EveryProcessHasThatOfItsOwnStages) {
  const StrategyOptions options = pipeline(kThree);
  std::vector<State> states(2);
  PlayedProcesses(options, context_of(options), {1, 2}).run([&](int process, Strategy& strategy) {
    states[static_cast<size_t>(process)] = strategy.state_dict();
  });
  EXPECT_EQ(states[0].size(), make_strategy(options)->state_dict().size());
  ASSERT_FALSE(states[1].empty());
  EXPECT_EQ(states[1].front().name, "conv2.weight");
}

TEST(PipelineProcessesData, ImagesAreLoadedWhereTheFirstStageIs) {
  const StrategyOptions options = pipeline(kTwo, 2);
  std::vector<std::pair<int, std::vector<bool>>> parts(3);
  PlayedProcesses(options, context_of(options), {1, 2, 1}).run([&](int process, Strategy& strategy) {
    auto& [first, loads] = parts[static_cast<size_t>(process)];
    first = strategy.first_part();
    for (const Device* device : strategy.batch_devices()) loads.push_back(device != nullptr);
  });
  using Part = std::pair<int, std::vector<bool>>;
  EXPECT_EQ(parts[0], (Part{0, {true}}));
  EXPECT_EQ(parts[1], (Part{0, {false, true}})) << "the end of the first replica, the beginning of the second";
  EXPECT_EQ(parts[2], (Part{1, {false}}));
}

TEST(PipelineProcessesCut, TheMeasuredOneIsThatOfTheFirstProcess) {
  StrategyOptions options = residual(pipeline(kThree));
  options.pipeline.cut = {};
  State got;
  for (const std::string& sentence :
       PlayedProcesses(options, context_of(options), {1, 2}).run([&](int process, Strategy&strategy) {
         train(strategy, digits(kSamples, 10), kSteps, kBatch, 0.05, 4);
         const State state = strategy.state_dict();
         if (process == 0) got = state;
       }))
    EXPECT_EQ(sentence, "");
  const auto single = make_strategy(residual({.name = "single", .devices = 1, .sgd = {.momentum = 0.9}}));
  train(*single, digits(kSamples, 10), kSteps, kBatch, 0.05, 4);
  expect_same_bits(got, single->state_dict());
}

TEST(PipelineProcessesEvaluation, StopsInAllWhereOneIsAskedTo) {
  const Datasets data = digits(10, 2000);
  const StrategyOptions options = pipeline(kTwo);
  std::vector<std::optional<Score>> stopped(2), whole(2);
  for (const std::string& sentence :
       PlayedProcesses(options, context_of(options), {1, 1}).run([&](int process, Strategy&strategy) {
         int asked = 0;
         stopped[static_cast<size_t>(process)] =
             strategy.evaluate(*data.test, {.stopped = [&] { return process == 1 && ++asked > 2; }});
         whole[static_cast<size_t>(process)] = strategy.evaluate(*data.test, {.stopped = [] { return false; }});
       }))
    EXPECT_EQ(sentence, "");
  for (size_t process = 0; process < 2; ++process) EXPECT_FALSE(stopped[process].has_value()) << process;
  EXPECT_EQ(whole[0]->samples, 2000) << "it can be asked again";
}

TEST(PipelineProcessesFailure, EndsAllWithOneSentence) {
  // The last stage of the second replica has no memory; the other ranks wait for it in different calls.
  const StrategyOptions options = pipeline(kTwo, 2);
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{{2, 2}, {1, 3}, {1, 1, 1, 1}}) {
    const auto sentences =
        PlayedProcesses(options, context_of(options), ranks).run([&](int process, Strategy& strategy) {
          if (process + 1 == static_cast<int>(ranks.size())) throw Error(ExitCode::bad_data, "a picture is damaged");
          train(strategy, digits(kSamples, 10), kSteps, kBatch, 0.05, 4);
        });
    for (const std::string& sentence : sentences) EXPECT_EQ(sentence, "a picture is damaged");
  }
}

}  // namespace pipeline_processes_test
}  // namespace dptrain::parallel
