#pragma once

#include <filesystem>

#include "data/dataset.h"
#include "train/checkpoint.h"
#include "train/experiment.h"

namespace dptrain::train {

/// Everything that must stay the same when a training run on `data` is resumed. If any of it changes, the position or
/// the state means something else.
TrainingIdentity identity_of(const Experiment& experiment, const Dataset& data);

/// Throws 65, naming the checkpoint, the difference and both values, if the checkpoint doesn't belong to the training
/// `own`. Options that the manifest doesn't have are ignored, because older versions didn't write them.
void require_same_training(const TrainingIdentity& own, const ResumePoint& resume);

/// Throws 65, naming the file, if an optimizer keeps other kinds of tensors than the `saved` ones, for instance
/// momentum or none.
void require_same_kept(const std::vector<nn::NamedValues>& own, const std::vector<nn::NamedValues>& saved,
                       const std::string& where);

/// Throws 65, naming the number in the manifest, if a training run with `batches_per_epoch` is never at the
/// checkpoint's position.
void require_possible_position(const ResumePoint& resume, int64_t batches_per_epoch);

/// Throws 65, naming the checkpoint and both vocabularies, if the weights have learned another vocabulary than that of
/// `data`. `weights` is a file that find_weights has found. Only weights of a checkpoint are checked, because only its
/// manifest names the vocabulary.
void require_same_vocabulary(const Dataset& data, const std::filesystem::path& weights);

/// Makes the same check, and also throws 65 if the classes in `data` have other names or its images are normalized
/// differently: the model's input or output then means something else.
void require_same_input(const Experiment& experiment, const Dataset& data, const std::filesystem::path& weights);

/// Throws 65, naming the file, the option and both values, if the weights were trained with other options of the same
/// model: many options change no tensor's shape. Weights of a model with another name aren't checked here; their
/// tensors show whether they fit.
void require_same_model(const models::ModelSpec& model, const std::filesystem::path& weights);

}  // namespace dptrain::train
