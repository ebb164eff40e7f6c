#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "parallel/data_parallel.h"
#include "parallel/ddp.h"
#include "parallel/strategy_config.h"

namespace dptrain::parallel {
namespace {

/// Refuses options of ranks: with `inside: data_parallel` only the first device of a process is a rank.
void refuse_inside(ConfigReader& options, const Ddp::Options& ddp) {
  const BucketOptions usual;
  const auto refuse = [&](const char* key, const std::string& got) {
    options.mistake(key, "expected none with inside: data_parallel, which sums all gradients at once, after backward",
                    got, "leave it out, or write inside: none");
  };
  if (ddp.buckets.bucket_mb != usual.bucket_mb) refuse("bucket_mb", fmt::format("{}", ddp.buckets.bucket_mb));
  if (ddp.buckets.first_bucket_mb != usual.first_bucket_mb)
    refuse("first_bucket_mb", fmt::format("{}", ddp.buckets.first_bucket_mb));
  if (ddp.buckets.overlap != usual.overlap) refuse("overlap", "false");
  if (ddp.buckets.defer_updates) refuse("overlap", "next_forward");
  if (ddp.find_unused)
    options.mistake("find_unused",
                    "expected none with inside: data_parallel, where a parameter without a gradient is never an error",
                    "true", "leave it out, or write inside: none");
  if (ddp.measures_noise)
    options.mistake("gradient_noise", "expected false with inside: data_parallel, which sums no gradients of devices",
                    "true", "leave it out, or write inside: none");
  if (ddp.shard_optimizer || ddp.compress.method != CompressionOptions::Method::none)
    options.mistake("inside",
                    "expected none with a sharded optimizer or compressed gradients, which need every device as a rank",
                    "data_parallel", "leave it out, or leave out shard_optimizer and compress");
}

/// Refuses what a bucket-by-bucket update during the next step can't wait for.
void refuse_deferred_updates(ConfigReader& config, const TrainingSettings& settings) {
  const auto refuse = [&](const char* key, const std::string& expected, const std::string& got,
                          const std::string& advice) {
    config.mistake(key, fmt::format("ddp with overlap: next_forward {}", expected), got,
                   advice + ", or write overlap: true");
  };
  if (settings.has_gpus) refuse("devices", "updates on CPU workers only, expected no GPU", "GPUs", "list CPU workers");
  if (settings.clip_norm)
    refuse("clip_norm", "never has the norm of all gradients, expected none", fmt::format("{}", *settings.clip_norm),
           "leave it out");
  if (settings.measures_layers)
    refuse("optimizer", fmt::format("never has the norm of a layer's gradients, expected {}", optim::kUnmeasured),
           settings.optimizer, "choose another optimizer");
  if (settings.shards > 0)
    refuse("shards", "doesn't support shards, expected none", fmt::format("{}", settings.shards), "leave them out");
}

}  // namespace

StrategySpec read_ddp(ConfigReader& options, const StrategyRequest& request) {
  StrategySpec spec{.name = {}, .make = {}, .parts = request.devices, .over_processes = true};
  Ddp::Options ddp;
  BucketOptions& buckets = ddp.buckets;
  if (!options.word("bucket_mb", "auto", true))
    buckets.bucket_mb = options.number("bucket_mb", {},
                                       {.min = 0,
                                        .max = kMostMb,
                                        .exclusive_min = true,
                                        .help = "MiB of gradients that are reduced together; auto: at most 25, and the "
                                                "last bucket at most a tenth of all"});
  buckets.first_bucket_mb = options.number("first_bucket_mb", buckets.first_bucket_mb,
                                           {.min = 0,
                                            .max = kMostMb,
                                            .exclusive_min = true,
                                            .help = "MiB of the first bucket, so that reducing begins early"});
  buckets.defer_updates = options.word("overlap", "next_forward", false);
  if (!buckets.defer_updates)
    buckets.overlap = options.boolean("overlap", true,
                                      "reduce while backward still runs; next_forward: also while the next step's "
                                      "forward pass runs, first layers first");
  spec.defers_updates = buckets.defer_updates;
  if (spec.defers_updates) spec.refuse_settings = refuse_deferred_updates;
  ddp.find_unused = options.boolean("find_unused", false,
                                    "parameters that a step's loss doesn't depend on are not an error: their gradient "
                                    "is zero");
  ddp.shard_optimizer = options.boolean("shard_optimizer", false,
                                        "each device keeps optimizer state for its part of the weights only (ZeRO-1)");
  ddp.compress = read_compression(options, request.devices);
  spec.compression = ddp.compress.method;
  const std::vector<std::string> insides = {"none", "data_parallel"};
  const bool is_inside =
      options.one_of("inside", insides, insides[0],
                     "how a process uses its own devices. none: each is a rank of ddp; data_parallel: the first one "
                     "hands out the process's samples, gathers the outputs and updates") == insides[1];
  if (ddp.shard_optimizer && ddp.compress.method != CompressionOptions::Method::none)
    options.mistake("compress", "expected none with a sharded optimizer, whose gradients go only to their owners",
                    compression_name(ddp.compress.method), "leave it out, or write shard_optimizer: false");
  if (ddp.shard_optimizer && buckets.defer_updates)
    options.mistake("overlap", "expected true or false with a sharded optimizer, which updates within its step",
                    "next_forward", "write overlap: true, or shard_optimizer: false");
  read_gradient_noise(options, request, spec);
  ddp.measures_noise = spec.measures_noise;
  if (ddp.measures_noise && buckets.defer_updates)
    options.mistake("gradient_noise", "expected false with overlap: next_forward, whose sums end in the next step",
                    "true", "leave it out, or write overlap: true");
  if (ddp.measures_noise && ddp.compress.keeps_residual())
    options.mistake(
        "gradient_noise",
        fmt::format("expected false with compress: {}, by which parts of a gradient are sent in later steps",
                    compression_name(ddp.compress.method)),
        "true", "leave one of them out, or write compress: bf16");
  if (is_inside) {
    refuse_inside(options, ddp);
    spec.make = [](const StrategyContext& context) {
      return std::make_unique<DataParallel>(context, DataParallel::Options{});
    };
  } else {
    spec.make = [ddp](const StrategyContext& context) { return std::make_unique<Ddp>(context, ddp); };
  }
  return spec;
}

}  // namespace dptrain::parallel
