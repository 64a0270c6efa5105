"""Recipes."""

import math

import pytest

from agrlearn.errors import RecipeError
from agrlearn.training.recipe import Recipe
from agrlearn.training.setup import learning_rate_at


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alpha": -1}, "alpha: input should be greater than or equal to 0, got -1"),
        ({"learning_rate": math.nan}, "learning_rate: input should be a finite number"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": "many"}, "epochs: input should be a valid integer"),
        ({"optimizer": "adagrad"}, "'sgd', 'adam' or 'adamw'"),
        ({"milestones": (0.5, 0.2)}, "milestones should rise"),
        ({"learning_rat": 0.1}, r"no setting 'learning_rat'; did you mean 'learning_rate'\? The settings are: epochs"),
    ],
)
def test_a_bad_recipe_gets_a_sentence(values, message):
    with pytest.raises(RecipeError, match=message):
        Recipe(**values)


def test_the_default_recipe_is_the_papers():
    recipe = Recipe()
    assert (recipe.epochs, recipe.batch_size, recipe.weight_decay) == (400, 64, 1e-4)
    rates = [learning_rate_at(recipe, epoch) for epoch in range(400)]
    assert rates == [0.1] * 100 + [0.01] * 50 + [0.001] * 100 + [0.0001] * 150
    cosine = [learning_rate_at(Recipe(epochs=10, schedule="cosine"), epoch) for epoch in range(10)]
    assert cosine[0] == 0.1
    assert cosine == sorted(cosine, reverse=True)
    with pytest.raises(Exception, match="frozen"):
        recipe.alpha = 1.0
