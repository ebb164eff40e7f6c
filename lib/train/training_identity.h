#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

namespace dptrain::train {

/// What must not change where a training on `data` goes on: with another of these its position or its state means
/// something else.
TrainingIdentity identity_of(const Experiment& experiment, const Dataset& data);

/// Throws 65, naming the checkpoint and both values, where it is not of the training `own`.
void require_same_training(const TrainingIdentity& own, const ResumePoint& resume);

/// Throws 65, naming the checkpoint and both vocabularies, where weights have learned another one than that of `data`.
/// `weights` is a file that find_weights has found; only the manifest of a checkpoint says of which vocabulary it is.
void require_same_vocabulary(const Dataset& data, const std::filesystem::path& weights);

}  // namespace dptrain::train
