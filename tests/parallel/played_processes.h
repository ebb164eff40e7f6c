#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_exchange.h"
#include "comm/world_shape.h"
#include "parallel/digits.h"
#include "support/memory_wires.h"

namespace dptrain::parallel {

/// Processes of a job that share the devices of a world, played by threads of one process.
class PlayedProcesses {
 public:
  /// `context` describes the whole world; `ranks` says how many of its devices each process has.
  PlayedProcesses(const StrategyOptions& options, StrategyContext context, const std::vector<int>& ranks)
      : options_(options), context_(std::move(context)), shape_(ranks) {}

  using Act = std::function<void(int process, Strategy& strategy)>;
  /// Makes the strategy in every process and calls `act` with it. Returns the error message that each process ended
  /// with, empty where it didn't fail.
  std::vector<std::string> run(const Act& act) const {
    const auto wires = MemoryWires::make(shape_.processes());
    std::vector<std::unique_ptr<ProcessExchange>> exchanges;
    for (const auto& wire : wires) exchanges.push_back(std::make_unique<ProcessExchange>(wire, 0.0005));
    std::vector<std::string> sentences(exchanges.size());
    std::vector<std::thread> threads;
    for (int p = 0; p < shape_.processes(); ++p)
      threads.emplace_back([&, p] {
        ProcessExchange& exchange = *exchanges[static_cast<size_t>(p)];
        std::unique_ptr<Strategy> strategy;
        try {
          strategy = make_strategy(options_, context_of_process(exchange));
          act(p, *strategy);
        } catch (const std::exception& failure) {
          const auto* error = dynamic_cast<const Error*>(&failure);
          exchange.fail({.code = error != nullptr ? error->code() : ExitCode::bug, .sentence = failure.what()});
          sentences[static_cast<size_t>(p)] = exchange.settled_failure().sentence;
        }
      });
    for (std::thread& thread : threads) thread.join();
    return sentences;
  }

 private:
  StrategyContext context_of_process(ProcessExchange& exchange) const {
    std::vector<int> all(static_cast<size_t>(shape_.processes()));
    std::iota(all.begin(), all.end(), 0);
    StrategyContext context = context_;
    context.team.world = {.exchange = &exchange, .processes = all, .shape = shape_};
    context.team.timeout_s = 60;
    const auto [begin, end] = shape_.ranks_of(exchange.process());
    const auto& devices = context_.team.devices;
    context.team.devices.assign(devices.begin() + begin, devices.begin() + end);
    context.team.threads.assign(context_.team.threads.begin() + begin, context_.team.threads.begin() + end);
    return context;
  }

  StrategyOptions options_;
  StrategyContext context_;
  WorldShape shape_;
};

}  // namespace dptrain::parallel
