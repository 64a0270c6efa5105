"""Where groups are joined in a model whose classifier has been taken off."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from agrlearn.errors import ConversionError, look_up
from agrlearn.grouping import Objects, count_objects, first_tensor, group, map_objects, replicate
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.conversion.assembly import Parts, assemble
from agrlearn.networks.conversion.classifier import Classifier, refuse_shared_weights
from agrlearn.networks.conversion.examples import at_least, with_padding
from agrlearn.networks.conversion.last_features import changes_input
from agrlearn.networks.conversion.splitting import placeholder_of, reads_again, replace_module, split
from agrlearn.networks.conversion.tracing import (
    FAILURES,
    Consumer,
    brief,
    copied,
    find_consumers,
    is_weighted_unit,
    outputs_before,
)
from agrlearn.networks.conversion.trial import trained_names
from agrlearn.networks.conversion.widening import ChannelJoin, SlotMixer, channel_dimensions, widen_input
from agrlearn.networks.conversion.within import WholeModel
from agrlearn.networks.joins import IMAGES, TOKENS, Join
from agrlearn.networks.tokens import SlotEmbedding, TandemJoin
from agrlearn.seeding import seeded

# What counts as the same output after sums in another order; in half precision, a few of its roundings.
_TOLERANCE, _ROUNDINGS = 1e-4, 4
_ATTEMPTS = 3


class Body:
    """The model with its classifier taken off, and the ways to join groups in it."""

    def __init__(self, model: nn.Module, objects: Objects, classifier: Classifier, fold: int, join: Join) -> None:
        self.model = model
        self.objects = objects
        self.classifier = classifier
        self.fold = fold
        self.join = join
        self.sums_slots = True
        """Whether weights that read the slots may be summed for one object in every slot."""
        self.changes_input = changes_input(WholeModel(model), objects)
        with torch.no_grad():
            self.t = self.run()
        try:
            self.trained: set[str] | None = trained_names(model, self.run)
        except FAILURES:  # of the model itself, in train mode
            self.trained = None

    def run(self) -> Tensor:
        with self._seeded():
            return WholeModel(self.model)(map_objects(Tensor.clone, self.objects))

    def _whole(self) -> WholeModel:
        return WholeModel(self.model, changes_input=self.changes_input)

    def _seeded(self) -> AbstractContextManager[None]:
        return seeded(0, self.classifier.scores.device)  # that of the search, for dropout that is always on

    def joined_at_the_input(
        self, stem: str | list[str] | None, separator: int | None, slot_embeddings: bool, seed: int
    ) -> Parts:
        if TOKENS in self.join.kinds:
            return self._joined_in_tandem(stem, separator, slot_embeddings, seed)
        if not isinstance(self.objects, Tensor) and len(self.objects) > 1:
            raise ConversionError(
                f"a model with the inputs {', '.join(self.objects)} cannot be joined at its input; pass at= with the "
                "name of the module that has brought them together, or join='max' or 'mean' to join before the "
                "classifier"
            )
        if not self.join.widens:
            return self._checked(Parts(nn.Identity(), self.join, self._whole(), [], []), exact=False)
        readers = self._stem(stem)
        for reader in readers:
            refuse_shared_weights(self.model, reader.name, reader.layer)
            try:
                widen_input(reader.name, reader.layer, self.fold)
            except ConversionError as error:
                raise ConversionError(f"{error}; pass at= with the name of a module to join after") from None
        self._tell_channels()
        names, layers = [reader.name for reader in readers], [reader.layer for reader in readers]
        parts = Parts(nn.Identity(), self.join, self._whole(), names, layers)
        try:
            return self._checked(parts, exact=True)
        except ConversionError:
            if IMAGES not in self.join.kinds:
                raise
            # Recurrent layers have their features last, and so do some images: what fails at dimension 1 may fit there.
            with suppress(ConversionError):
                return self._checked(replace(parts, join=ChannelJoin(-1)), exact=True)
            raise

    def _tell_channels(self) -> None:
        """Let models of transformers, which compare their input's channels with a number, expect those of all slots."""
        channels = first_tensor(self.objects).shape[1]
        modules = [module for module in self.model.modules() if not isinstance(module, nn.GroupNorm)]
        holders: list[Any] = [*modules, *(getattr(module, "config", None) for module in modules)]
        for holder in holders:
            if getattr(holder, "num_channels", None) == channels:
                holder.num_channels = channels * self.fold
                self.sums_slots = False

    def joined_after(self, at: str) -> Parts:
        module = look_up(dict(self.model.named_modules()), at, "module of the model")
        calls = outputs_before(self.model, self.run, module, at)
        output = calls[-1][1]
        if isinstance(output, Tensor) and output.is_nested:
            raise ConversionError(
                f"{at} gives a nested Tensor; pass enable_nested_tensor=False to nn.TransformerEncoder, or choose "
                "another module to join after"
            )
        if not isinstance(output, Tensor) or output.shape[:1] != (count_objects(self.objects),):
            kind = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ConversionError(
                f"{at} gives {kind}, not a Tensor with the objects first; choose another module to join after"
            )
        if not self.join.widens:
            return self._checked(self._pieces(self.model, at, self.join), exact=self.join.slot_blind)
        readers = find_consumers(self.model, self.run, module)
        makers = [layer for layer, _ in reversed(calls)]
        # What a layer itself gives is as that layer makes it; anything else may have been turned around since.
        dims = channel_dimensions(output, makers, [] if is_weighted_unit(module) else [each.layer for each in readers])
        for dim in dims:
            widened = self._try_widening(at, readers, dim)
            if widened is not None:
                return widened
        if len(dims) != 1:
            raise ConversionError(
                f"{at} gives {tuple(output.shape)}, and it cannot be told which dimension holds the channels; choose "
                "another module to join after"
            )
        mixer = SlotMixer(self.fold, output.shape[dims[0]], dims[0]).to(output.device, output.dtype)
        parts = replace(self._pieces(self.model, at, mixer), readers=[mixer], mixer=True)
        return self._checked(parts, exact=True)

    def _try_widening(self, at: str, readers: list[Consumer], dim: int) -> Parts | None:
        """The layers after `at` widened, where they are all that read it; None where something else does too."""
        if not readers or any(reader.uses > 1 for reader in readers):
            return None
        names, trial = [reader.name for reader in readers], copied(self.model)
        try:
            for name in names:
                refuse_shared_weights(trial, name, trial.get_submodule(name))
            return self._checked(self._pieces(trial, at, ChannelJoin(dim), names), exact=True)
        except ConversionError:
            return None

    def _pieces(self, model: nn.Module, at: str, join: nn.Module | Join, names: Sequence[str] = ()) -> Parts:
        """The model in two pieces, with the layers called `names` widened; it is not used any more."""
        # A mask, if it is read, shows itself where something is masked: transformers drop one of ones.
        objects = with_padding(self.objects)
        try:
            readers = [model.get_submodule(name) for name in names]
            first, second = split(
                model, model.get_submodule(at), placeholder_of(objects), changes_input=self.changes_input
            )
            for name, reader in zip(names, readers, strict=True):
                widen_input(name, reader, self.fold)
            with torch.no_grad():
                joined = join(replicate(first(at_least(objects, 3)), self.fold))
            again = reads_again(second, joined)
        except FAILURES as error:
            raise ConversionError(
                f"the model cannot go on behind {at} with joined features ({brief(error)}); choose another module to "
                "join after"
            ) from error
        if again:
            raise ConversionError(
                f"what was computed before {at}, such as a mask or a residual sum, is read again behind it, where "
                "there are groups and not objects; choose another module to join after, such as the whole block"
            )
        return Parts(first, join, second, list(names), readers)

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
                replace_module(self.model, reader.layer, SlotEmbedding(reader.layer, self.fold))
            names, stride = [reader.name], reader.layer.num_embeddings
        if not isinstance(self.objects, Tensor) and not {"input_ids", "attention_mask"} <= set(self.objects):
            raise ConversionError("a mapping of tokens needs input_ids and attention_mask to be joined in tandem")
        parts = Parts(nn.Identity(), TandemJoin(separator, stride), self._whole(), names, [])
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
        self._check_training(network)
        return parts

    def assemble(self, parts: Parts, *, widen: bool = False, noise: float = 0.0) -> AggregatedClassifier:
        """A network with the classifier's weights in every head."""
        return assemble(parts, self.classifier, self.fold, widen=widen, noise=noise, sums_slots=self.sums_slots)

    @torch.no_grad()
    def difference(self, network: AggregatedClassifier) -> float:
        """The largest change of a logit with one object in every slot, relative to the largest logit above 1."""
        mine, before = network.heads(self._bottleneck(network)), self.classifier.scores
        return float((mine - before[:, None]).abs().max() / before.abs().max().clamp(min=1.0))

    @torch.no_grad()
    def _change_of_t(self, network: AggregatedClassifier) -> float:
        """How far T moves with one object in every slot, relative to its size."""
        mine, before = self._bottleneck(network).float(), self.t.float()
        return float((mine - before).norm() / before.norm().clamp(min=torch.finfo(torch.float32).tiny))

    def _bottleneck(self, network: AggregatedClassifier) -> Tensor:
        with self._seeded():  # as many objects as in the search, so that dropout draws the same
            return network.bottleneck_from(replicate(network.shared(self.objects), self.fold))

    def _check_training(self, network: AggregatedClassifier) -> None:
        """Refuse a network that fails in train mode where the model does not, or in which a piece does not learn."""
        groups = group(at_least(self.objects, 2 * self.fold), self.fold)
        pieces = nn.ModuleList([network.shared, network.encoder])
        for _ in range(_ATTEMPTS if self.trained is not None else 0):  # as layers may be skipped at random
            try:
                reached = trained_names(pieces, lambda: network.bottleneck(groups))
            except FAILURES as error:
                reason = brief(error)
                continue
            names = {name for name, _ in pieces.named_parameters()}
            wanted = [names & {f"{piece}.model.{name}" for name in self.trained or ()} for piece in range(len(pieces))]
            if all(not each or each & reached for each in wanted):
                return
            reason = "nothing would be learned before the join, or behind it"
        if self.trained is not None:
            raise ConversionError(
                f"the network does not train as the model does ({reason}), as when it is joined within a part that is "
                "checkpointed (torch.utils.checkpoint); choose another module to join after with at=, or pass "
                "join='max' or 'mean' alone to join before the classifier"
            )
