"""Where groups are joined in a model whose classifier has been taken off."""

from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import Objects, count_objects, map_objects, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.classifier import Classifier, refuse_shared_weights
from agrlearn.networks.conversion.examples import at_least, with_padding
from agrlearn.networks.conversion.tracing import (
    FAILURES,
    Consumer,
    brief,
    copied,
    find_consumers,
    modules_before,
    outputs_of,
)
from agrlearn.networks.conversion.widening import (
    ChannelJoin,
    SlotMixer,
    WidenedBottleneck,
    channel_dimension,
    widen_input,
)
from agrlearn.networks.conversion.within import (
    FirstPiece,
    JoinPoint,
    SecondPiece,
    WholeModel,
    placeholder_of,
    replace_module,
)
from agrlearn.networks.joins import IMAGES, TOKENS, Join
from agrlearn.networks.tokens import SlotEmbedding, TandemJoin
from agrlearn.seeding import seeded

# What counts as the same output after sums in another order; in half precision, a few of its roundings.
_TOLERANCE, _ROUNDINGS = 1e-4, 4


@dataclass(frozen=True)
class Parts:
    """The three pieces of an aggregated network, and what was widened to make them."""

    shared: nn.Module
    join: nn.Module | Join
    encoder: nn.Module
    names: list[str]
    readers: list[nn.Module]
    mixer: bool = False


class Body:
    """The model with its classifier taken off, and the ways to join groups in it."""

    def __init__(self, model: nn.Module, objects: Objects, classifier: Classifier, fold: int, join: Join) -> None:
        self.model = model
        self.objects = objects
        self.classifier = classifier
        self.fold = fold
        self.join = join
        with torch.no_grad():
            self.t = self.run()

    def run(self) -> Tensor:
        with self._seeded():
            return WholeModel(self.model)(map_objects(Tensor.clone, self.objects))

    def _seeded(self) -> AbstractContextManager[None]:
        return seeded(0, self.classifier.scores.device)  # that of the search, for dropout that is always on

    def joined_at_the_input(
        self, stem: str | list[str] | None, separator: int | None, slot_embeddings: bool, seed: int
    ) -> Parts:
        if TOKENS in self.join.kinds:
            return self._joined_in_tandem(stem, separator, slot_embeddings, seed)
        if not isinstance(self.objects, Tensor):
            raise ConversionError(
                f"a model with the inputs {', '.join(self.objects)} cannot be joined at its input; pass at= with the "
                "name of the module that has brought them together"
            )
        if not self.join.widens:
            return self._checked(Parts(nn.Identity(), self.join, WholeModel(self.model), [], []), exact=False)
        readers = self._stem(stem)
        for reader in readers:
            refuse_shared_weights(self.model, reader.name, reader.layer)
            try:
                widen_input(reader.name, reader.layer, self.fold)
            except ConversionError as error:
                raise ConversionError(f"{error}; pass at= with the name of a module to join after") from None
        names, layers = [reader.name for reader in readers], [reader.layer for reader in readers]
        parts = Parts(nn.Identity(), self.join, WholeModel(self.model), names, layers)
        try:
            return self._checked(parts, exact=True)
        except ConversionError:
            if IMAGES not in self.join.kinds:
                raise
            # Recurrent layers have their features last, and so do some images: what fails at dimension 1 may fit there.
            with suppress(ConversionError):
                return self._checked(replace(parts, join=ChannelJoin(-1)), exact=True)
            raise

    def joined_after(self, at: str) -> Parts:
        modules = dict(self.model.named_modules())
        look_up(modules, at, "module of the model")
        module = modules[at]
        _, calls = outputs_of(self.run, {at: module})
        if len(calls) != 1:
            raise ConversionError(
                f"{at} runs {len(calls)} times in a pass; choose a module that runs once to join after"
            )
        output = calls[0][2]
        if not isinstance(output, Tensor) or output.shape[:1] != (count_objects(self.objects),):
            kind = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ConversionError(
                f"{at} gives {kind}, not a Tensor with the objects first; choose another module to join after"
            )
        if not self.join.widens:
            return self._checked(self._pieces(self.model, at, self.join, [], []), exact=self.join.slot_blind)
        readers = find_consumers(self.model, self.run, module)
        dim = channel_dimension(output, readers[0].layer if readers else None)
        widened = self._try_widening(at, readers, dim)
        if widened is not None:
            return widened
        mixer = SlotMixer(self.fold, output.shape[dim], dim).to(output.device, output.dtype)
        return self._checked(self._pieces(self.model, at, mixer, [], [mixer], mixer=True), exact=True)

    def _try_widening(self, at: str, readers: list[Consumer], dim: int) -> Parts | None:
        """The layers after `at` widened, where they are all that read it; None where something else does too."""
        trial = copied(self.model)
        try:
            layers = []
            for reader in readers:
                if reader.uses > 1:
                    return None
                layer = trial.get_submodule(reader.name)
                refuse_shared_weights(trial, reader.name, layer)
                widen_input(reader.name, layer, self.fold)
                layers.append(layer)
            parts = self._pieces(trial, at, ChannelJoin(dim), [reader.name for reader in readers], layers)
            return self._checked(parts, exact=True) if layers else None
        except ConversionError:
            return None

    def _pieces(
        self, model: nn.Module, at: str, join: nn.Module | Join, names: list[str], readers: list[nn.Module],
        *, mixer: bool = False,
    ) -> Parts:  # fmt: skip
        module = model.get_submodule(at)
        point = JoinPoint(module)
        replace_module(model, at, point)
        first = FirstPiece(model, point)
        before = modules_before(model, lambda: first(self.objects), point)
        # Two placeholders and three groups do not broadcast: whatever goes around `at` shows itself here. So does a
        # mask, if something is masked: transformers drop one of ones.
        objects = with_padding(self.objects)
        trial = Parts(first, join, SecondPiece(model, point, before, placeholder_of(objects, 2)), names, readers)
        try:
            with torch.no_grad():
                self.assemble(trial)(replicate(at_least(objects, 3), self.fold))
        except FAILURES as error:
            replace_module(model, at, module)
            raise ConversionError(
                f"the model cannot go on behind {at} with joined features ({brief(error)}); what was computed "
                "before it, or the batch size, is read again behind it; choose another module to join after"
            ) from error
        return Parts(
            first, join, SecondPiece(model, point, before, placeholder_of(self.objects)), names, readers, mixer
        )

    def _joined_in_tandem(
        self, stem: str | list[str] | None, separator: int | None, slot_embeddings: bool, seed: int
    ) -> Parts:
        names, stride = [], 0
        if slot_embeddings:
            [reader] = self._stem(stem)[:1]
            if not isinstance(reader.layer, nn.Embedding):
                raise ConversionError(
                    f"slot embeddings need a word embedding as the stem, got {type(reader.layer).__name__}"
                )
            with seeded(seed):
                replace_module(self.model, reader.name, SlotEmbedding(reader.layer, self.fold))
            names, stride = [reader.name], reader.layer.num_embeddings
        if not isinstance(self.objects, Tensor) and not {"input_ids", "attention_mask"} <= set(self.objects):
            raise ConversionError("a mapping of tokens needs input_ids and attention_mask to be joined in tandem")
        parts = Parts(nn.Identity(), TandemJoin(separator, stride), WholeModel(self.model), names, [])
        return self._checked(parts, exact=False)

    def _stem(self, names: str | list[str] | None) -> list[Consumer]:
        if names is not None:
            chosen = [names] if isinstance(names, str) else names
            modules = dict(self.model.named_modules())
            return [Consumer(name, look_up(modules, name, "module of the model"), 1) for name in chosen]
        readers = find_consumers(self.model, self.run, self.objects)
        if not readers:
            raise ConversionError("no layer with weights reads the model's input; name it with stem=, or pass at=")
        for reader in readers:
            if reader.uses > 1:
                raise ConversionError(
                    f"{reader.name} reads the input {reader.uses} times, as layers shared by two branches do; pass at= "
                    "with a module to join after"
                )
        return readers

    def _checked(self, parts: Parts, *, exact: bool) -> Parts:
        """The parts, once they have run, and where they should, given what the model gave."""
        try:
            network = self.assemble(parts)
            # The logits alone would tell nothing where the classifier's weights are zeros.
            difference = max(self.difference(network), self._change_of_t(network))
        except FAILURES as error:
            if isinstance(error, ConversionError):
                raise
            widened = f"after {', '.join(parts.names)} was widened " if parts.names else ""
            raise ConversionError(
                f"the model does not take joined inputs {widened}({brief(error)}), as when it has a fixed size;"
                " pass at= with the name of a module to join after"
            ) from error
        if exact and not difference <= max(_TOLERANCE, _ROUNDINGS * torch.finfo(self.classifier.scores.dtype).eps):
            raise ConversionError(
                f"the model's output changes by {difference:.2g} when {', '.join(parts.names) or 'a mixer'} reads all "
                "slots, as when a layer rescales its own weights; pass at= with the name of a module to join after"
            )
        return parts

    def assemble(self, parts: Parts, *, widen: bool = False, noise: float = 0.0) -> AggregatedClassifier:
        """A network with the classifier's weights in every head."""
        classes, features = self.classifier.weight.shape
        repeats = self.fold if widen else 1
        dtype = self.classifier.weight.dtype  # of the new layers alone: a model may mix types
        encoder = parts.encoder
        if widen:
            encoder = nn.Sequential(encoder, WidenedBottleneck(features, self.fold).to(dtype))
        network = AggregatedClassifier(
            encoder,
            features=features * repeats,
            fold=self.fold,
            num_classes=classes,
            join=parts.join,
            shared=parts.shared,
            noise=noise,
            slot_weights=_slot_weights(parts, encoder),
        )
        before = self.classifier.bias
        if network.shares_head and before is None:  # a bias that is learned could not go back into the model
            network.head = nn.Linear(features * repeats, classes, bias=False)
        network.to(self.classifier.weight.device).eval()
        network.head.to(dtype)
        heads = 1 if network.shares_head else self.fold
        weight, *biases = network.head.parameters()
        with torch.no_grad():
            weight.copy_(self.classifier.weight.repeat(heads, repeats) / repeats)
            for bias in biases:
                bias.copy_(torch.zeros(classes * heads) if before is None else before.repeat(heads))
        return network

    @torch.no_grad()
    def difference(self, network: AggregatedClassifier) -> float:
        """The largest change of a logit with one object in every slot, relative to the largest logit above 1."""
        with self._seeded():
            mine, before = network(replicate(self.objects, self.fold)), self.classifier.scores
        return float((mine - before[:, None]).abs().max() / before.abs().max().clamp(min=1.0))

    @torch.no_grad()
    def _change_of_t(self, network: AggregatedClassifier) -> float:
        """How far T moves with one object in every slot, relative to its size."""
        with self._seeded():
            mine, before = network.bottleneck(replicate(self.objects, self.fold)).float(), self.t.float()
        return float((mine - before).norm() / before.norm().clamp(min=torch.finfo(torch.float32).tiny))


def _slot_weights(parts: Parts, encoder: nn.Module) -> list[str]:
    """The widened weights by their names in the encoder, where a sum over slots can stand for `fold` equal inputs."""
    if not all(isinstance(reader, nn.Linear | nn.modules.conv._ConvNd) for reader in parts.readers):
        return []
    weights = {id(reader.weight) for reader in parts.readers}
    names = [name for name, parameter in encoder.named_parameters() if id(parameter) in weights]
    return names if len(names) == len(parts.readers) else []  # a weight that is computed has no name of its own
