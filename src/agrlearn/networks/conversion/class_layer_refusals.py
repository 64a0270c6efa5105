"""What to say where no layer is seen to make a model's class scores."""

from typing import TYPE_CHECKING

from agrlearn.errors import ConversionError
from agrlearn.networks.conversion.class_layer import NORMALISATIONS
from agrlearn.networks.conversion.recording import Call
from agrlearn.networks.conversion.tracing import tensors_in

if TYPE_CHECKING:
    from agrlearn.networks.conversion.class_layer_search import Search


def no_class_layer(search: "Search", *, linear: bool) -> ConversionError:
    """Why there is no class layer, and what to name or to change."""
    if search.makes_one_score:
        return single_score("the model")
    if not search.scores:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_in(search.returned)) or "no Tensor"
        return ConversionError(
            f"the model returns {type(search.returned).__name__} ({shapes}) without class scores of shape (objects, "
            f"classes), so {'no linear layer or 1×1 convolution' if linear else 'no layer'} is seen to make them; "
            "name the one that does with classifier="
        )
    widths = {scores.shape[1] for scores in search.scores.values()}
    fitting = [made for made in search.calls if made.flat.shape[1] in widths]
    # A container makes what its last layer makes: the layer itself is meant.
    names = list(dict.fromkeys(made.name for made in fitting))
    names = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    names = [name for name in names if not isinstance(search.layers[name], NORMALISATIONS)]
    if len(names) == 1:
        [key] = names
        return ConversionError(
            f"the model's class scores are not the output of {key}, nor its softmax or log-softmax; heads know "
            f"nothing of what the model does behind {key}: put it into the layer, as a factor into its weights, or "
            f"pass classifier={key!r} to leave it out"
        )
    if names:
        return ConversionError(
            f"the model's class scores are not the output of one layer: {' and '.join(names)} each make some, as "
            "with a head for distillation; name the one to keep with classifier=, and the others are left out"
        )
    positions = [made for made in search.calls if made.made.ndim > 2 and widths & set(made.made.shape[1:])]
    if positions:
        return at_every_position(positions[-1])
    tried = ", ".join(list(dict.fromkeys(search.ran))[-3:]) or "none ran"
    kind = "linear layer or 1×1 convolution" if linear else "layer"
    return ConversionError(
        f"no {kind} makes the model's class scores (the last of them: {tried}); put what makes them into a module "
        "of its own, or name the layer that does with classifier="
    )


def at_every_position(made: Call) -> ConversionError:
    return ConversionError(
        f"{made.name} runs at every position of an object and makes {tuple(made.made.shape)}, so it does not make "
        f"the class scores alone; let the model pool the positions, or pick one, before {made.name}"
    )


def refuse_multi_label(wrong: bool) -> None:
    if wrong:
        raise ConversionError(
            "the model ends in a sigmoid, or is configured for several labels an object (multi-label), but heads are "
            "softmax layers that choose one class; take the sigmoid off if each object has one label"
        )


def single_score(name: str) -> ConversionError:
    return ConversionError(
        f"{name} makes a single score, but heads are softmax layers over at least two classes; give the model one "
        "score for each class, or name the layer that makes them with classifier="
    )
