"""What `fit` refuses before it trains."""

import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import Dataset

from agrlearn.data.labelled import LabelledSet, check_class_count
from agrlearn.errors import DataError, RecipeError, TrainingError
from agrlearn.networks.aggregated import AggregatedClassifier, check_network
from agrlearn.ranks import world_size
from agrlearn.training.information_plane import check_trackable
from agrlearn.training.recipe import Recipe


def check_types(network: object, recipe: object) -> None:
    """Refuse a model that does not classify groups, and settings that are no recipe."""
    check_network(network)
    if not isinstance(recipe, Recipe | None):
        raise RecipeError(f"expected a Recipe, got {type(recipe).__name__}; Recipe(epochs=10) makes one")


def check_fit(
    network: AggregatedClassifier, train_set: Dataset, validation_set: Dataset | None, recipe: Recipe, engine: Fabric,
    critic: nn.Module | None,
) -> None:  # fmt: skip
    """Refuse what does not fit together; the arguments are those of `fit`."""
    if not torch.is_grad_enabled():
        raise TrainingError("fit was called under torch.no_grad() or inference_mode(), where nothing can be learned")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise TrainingError("all parameters of the network are frozen; set requires_grad of those that shall learn")
    if isinstance(train_set, LabelledSet):
        check_class_count(train_set)
        classes = train_set.num_classes
        if classes > network.num_classes:
            raise DataError(
                f"the data set has {classes} classes, the network {network.num_classes}; build it with "
                f"num_classes={classes}"
            )
        if isinstance(validation_set, LabelledSet) and validation_set.class_names != train_set.class_names:
            first, second = (", ".join(dataset.class_names[:10]) for dataset in (train_set, validation_set))
            raise DataError(
                f"the training and the validation set number their classes differently ({first}; {second}); make the "
                "validation set by LabelledSet.of(objects, labels, class_names=train_set.class_names)"
            )
    if validation_set is not None and len(validation_set) == 0:  # type: ignore[arg-type]
        raise DataError("the validation set is empty; pass at least one object, or None for no validation set")
    if recipe.patience is not None and validation_set is None:
        raise RecipeError("patience needs a validation set to judge the epochs by; pass one, or leave patience out")
    if critic is not None and recipe.alpha == 0:
        raise RecipeError("a critic is only used for the penalty J; pass a recipe with alpha above 0 as well")
    if recipe.track_information:
        check_trackable(network, validation_set)
    if engine.world_size != world_size():
        raise RecipeError(
            f"torch.distributed runs {world_size()} processes, the Fabric {engine.world_size}; pass the Fabric that "
            "launched them, after its launch()"
        )
    if recipe.batch_size < recipe.accumulate * engine.world_size:
        raise RecipeError(
            f"batch_size={recipe.batch_size} groups cannot be cut into accumulate={recipe.accumulate} microbatches on "
            f"each of {engine.world_size} processes; raise batch_size or lower accumulate"
        )
