#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

namespace dptrain::train {

/// What must not change where a training on `data` goes on: with another of these its position or its state means
/// something else.
TrainingIdentity identity_of(const Experiment& experiment, const Dataset& data);

/// Throws 65, naming the checkpoint, what differs and both values, where it is not of the training `own`. Options that
/// its manifest doesn't have, as those from before there were any, are not compared.
void require_same_training(const TrainingIdentity& own, const ResumePoint& resume);

/// Throws 65, naming the file, where an optimizer keeps other tensors than one that has `saved` kept: momentum, or
/// none.
void require_same_kept(const std::vector<nn::NamedValues>& own, const std::vector<nn::NamedValues>& saved,
                       const std::string& where);

/// Throws 65, naming the manifest's number, where a training with so many batches an epoch is never at the position of
/// the checkpoint.
void require_possible_position(const ResumePoint& resume, int64_t batches_per_epoch);

/// Throws 65, naming the checkpoint and both vocabularies, where weights have learned another one than that of `data`.
/// `weights` is a file that find_weights has found; only the manifest of a checkpoint says of which vocabulary it is.
void require_same_vocabulary(const Dataset& data, const std::filesystem::path& weights);

/// The same also where the numbers of classes have other names in `data`, or its images are normalized otherwise: what
/// the model is given, and what it says, then mean something else.
void require_same_input(const Experiment& experiment, const Dataset& data, const std::filesystem::path& weights);

/// Throws 65, naming the file, the option and both values, where the weights of such a model were trained with other
/// options: many of them change no tensor's shape. Those of a model of another name are left to their tensors.
void require_same_model(const models::ModelSpec& model, const std::filesystem::path& weights);

}  // namespace dptrain::train
