"""The optimizer, the learning rate and the critic of a recipe."""

import torch

from agrlearn.networks.catalogue import build_network
from agrlearn.training.loop import fit
from agrlearn.training.recipe import Recipe


def test_the_critic_reads_objects_of_the_size_that_the_augmentation_gives_them(images):
    def crop(objects, random):
        first = int(torch.randint(3, (), generator=random))
        return objects[..., first : first + 6, :6]

    network = build_network("small-cnn", object_shape=(1, 6, 6), num_classes=4, fold=2, width=4)
    history = fit(network, images, Recipe(epochs=1, batch_size=16, alpha=0.1), augment=crop)
    assert history.records[0].information is not None
