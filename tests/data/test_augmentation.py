"""Augmentation: whole batches at once, as a loop over single images would do it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agrlearn.data.augmentation import crop_and_flip
from agrlearn.errors import ShapeError
from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe


def image_by_image(images, seed, padding, flip):
    """The oracle: pads, crops and mirrors one image after the other, by the same draws."""
    random = torch.Generator().manual_seed(seed)
    count, channels, height, width = images.shape
    shifts = torch.randint(0, 2 * padding + 1, (2, count, 1), generator=random).squeeze(2)
    mirrored = torch.randint(0, 2, (count, 1), generator=random).squeeze(1)
    changed = []
    for image, down, right, mirror in zip(images, *shifts.tolist(), mirrored.tolist(), strict=True):
        canvas = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=images.dtype)
        canvas[:, padding : padding + height, padding : padding + width] = image
        crop = canvas[:, down : down + height, right : right + width]
        changed.append(crop.flip(2) if mirror and flip else crop)
    return torch.stack(changed)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 9),
    channels=st.integers(1, 3),
    height=st.integers(1, 7),
    width=st.integers(1, 7),
    padding=st.integers(0, 5),
    flip=st.booleans(),
    dtype=st.sampled_from([torch.uint8, torch.float32]),
    seed=st.integers(0, 2**31),
)
def test_a_batch_is_changed_as_its_images_one_by_one(count, channels, height, width, padding, flip, dtype, seed):
    images = torch.arange(count * channels * height * width).remainder(251).to(dtype)
    images = images.view(count, channels, height, width)
    changed = crop_and_flip(images, torch.Generator().manual_seed(seed), padding=padding, flip=flip)
    assert changed.dtype == dtype
    assert torch.equal(changed, image_by_image(images, seed, padding, flip))


def test_every_shift_and_both_directions_occur_equally_often_and_the_input_stays_as_it_was():
    images = torch.zeros(20_000, 1, 3, 4, dtype=torch.uint8)
    images[:, 0, 1, 1] = 1
    before = images.clone()
    changed = crop_and_flip(images, torch.Generator().manual_seed(0), padding=1)
    assert torch.equal(images, before)
    counts = changed.sum(dim=(0, 1))
    # The bright pixel is shifted to three rows; to columns 0, 1, 2, or mirrored to 1, 2, 3.
    expected = 20_000 / 18 * torch.tensor([1, 2, 2, 1]).expand(3, 4)
    assert (counts - expected).abs().max() < 5 * (20_000 / 9) ** 0.5


def test_images_in_another_memory_layout_are_changed_alike():
    images = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
    other = images.contiguous(memory_format=torch.channels_last)
    plain, changed = (crop_and_flip(x, torch.Generator().manual_seed(3)) for x in (images, other))
    assert torch.equal(plain, changed)


def test_objects_that_are_no_images_are_refused_with_a_sentence():
    with pytest.raises(ShapeError, match=r"expected images of shape .* got \(5, 7\)"):
        crop_and_flip(torch.zeros(5, 7), torch.Generator())
    with pytest.raises(ShapeError, match="got dict"):
        crop_and_flip({"tokens": torch.zeros(5, 7)}, torch.Generator())


def test_training_takes_it_as_it_is(images):
    networks = [
        build_network("small-cnn", object_shape=(1, 8, 8), num_classes=4, fold=2, objects=images.objects)
        for _ in range(3)
    ]
    recipe = Recipe(epochs=1, batch_size=16)
    for network, augment in zip(networks, (crop_and_flip, crop_and_flip, None), strict=True):
        fit(network, images, recipe, augment=augment)
    weights = [torch.cat([value.flatten() for value in network.parameters()]) for network in networks]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
