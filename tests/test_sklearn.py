"""The scikit-learn estimator."""

import pickle

import numpy
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from agrlearn.errors import AgrLearnError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.sklearn import AgrLearnClassifier
from agrlearn.training.history import History


def expected_failures(estimator):
    reason = "a weight multiplies a row's loss; repeated rows also make an epoch longer"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks([AgrLearnClassifier(epochs=20)], expected_failed_checks=expected_failures)
def test_it_meets_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return make_classification(200, 8, n_informative=5, n_classes=3, random_state=0)


def test_it_works_in_searches_pipelines_and_cross_validation(table):
    x, y = table
    search = GridSearchCV(AgrLearnClassifier(epochs=5, random_state=0), {"fold": [1, 2]}, cv=2).fit(x, y)
    assert search.best_params_["fold"] in (1, 2)
    piped = make_pipeline(StandardScaler(), AgrLearnClassifier(epochs=20, random_state=0))
    assert cross_val_score(piped, x, y, cv=3).mean() > 0.5


def test_names_and_numbers_with_gaps_come_back_as_they_were(table):
    x, y = table
    for labels in (numpy.array(["red", "green", "blue"])[y], numpy.array([7, -3, 40])[y]):
        fitted = AgrLearnClassifier(epochs=10, random_state=0).fit(x, labels)
        assert set(fitted.predict(x)) <= set(labels)
        assert fitted.score(x, labels) > 0.6
        assert fitted.predict_proba(x).shape == (200, 3)


def test_images_and_sentences_are_taken_as_they_are():
    digits, numbers = load_digits(return_X_y=True)
    images = digits[:300].reshape(-1, 8, 8)
    assert AgrLearnClassifier(epochs=8, random_state=0).fit(images, numbers[:300]).score(images, numbers[:300]) > 0.7
    good, bad = ["a fine and moving film", "what a fine cast"], ["a dull and empty film", "what a dull plot"]
    sentences, labels = (good + bad) * 10, (["pos"] * 2 + ["neg"] * 2) * 10
    reader = AgrLearnClassifier(epochs=4, learning_rate=0.002, random_state=0).fit(sentences, labels)
    assert list(reader.predict(["a fine plot", "a dull cast"])) == ["pos", "neg"]
    with pytest.raises(ValueError, match="list of strings"):
        reader.predict(images)


def test_sentences_do_not_depend_on_their_order_and_weights_mean_what_they_mean_for_tables():
    sentences = [
        f"a {word} film {number % 3}" for number, word in enumerate(["fine", "dull", "new", "odd", "long"] * 4)
    ]
    labels = numpy.arange(20) % 2
    weights = numpy.array([1, 0, 1, 1, 1] * 4)
    order = numpy.random.default_rng(0).permutation(20)

    def probabilities(rows, **options):
        chosen = [sentences[row] for row in rows]
        reader = AgrLearnClassifier(epochs=2, random_state=0).fit(chosen, labels[rows], **options)
        return reader.predict_proba(sentences)

    numpy.testing.assert_array_equal(probabilities(numpy.arange(20)), probabilities(order))
    kept = weights.nonzero()[0]
    weighted = probabilities(numpy.arange(20), sample_weight=weights)
    numpy.testing.assert_allclose(weighted, probabilities(kept), rtol=1e-4)


@pytest.mark.parametrize("missing", [None, numpy.nan, 3])
def test_a_missing_sentence_is_refused(missing):
    with pytest.raises(ValueError, match=f"a sentence in every row, got {missing} in row 1"):
        AgrLearnClassifier().fit(["a fine film", missing, "a dull film"], [0, 1, 1])


def test_a_network_function_starts_from_the_random_state(table):
    x, y = table

    def make(shape, num_classes, fold):
        encoder = torch.nn.Linear(fold * shape[0], 8)
        return AggregatedClassifier(encoder, features=8, fold=fold, num_classes=num_classes, join="features")

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, again, other = (AgrLearnClassifier(2, 0, make, epochs=1, random_state=seed).fit(x, y) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    numpy.testing.assert_array_equal(first.predict_proba(x), again.predict_proba(x))
    assert not numpy.array_equal(first.predict_proba(x), other.predict_proba(x))


def test_equal_random_states_give_equal_fits_whatever_the_order_of_rows(table):
    x, y = table
    order = numpy.random.default_rng(0).permutation(len(x))
    first = AgrLearnClassifier(epochs=3, random_state=1).fit(x, y)
    again = clone(first).fit(x[order], y[order])
    other = AgrLearnClassifier(epochs=3, random_state=2).fit(x, y)
    numpy.testing.assert_array_equal(first.predict_proba(x), again.predict_proba(x))
    assert not numpy.array_equal(first.predict_proba(x), other.predict_proba(x))
    thawed = pickle.loads(pickle.dumps(first))
    numpy.testing.assert_array_equal(first.predict_proba(x), thawed.predict_proba(x))


@pytest.mark.parametrize("heavy", [2, 2.5, 10, 11, 40])
def test_weights_multiply_the_loss_whether_they_are_whole_numbers_or_not(table, heavy):
    x, y = table
    weights = numpy.where(y == 0, heavy, 1)
    plain, weighted = (
        AgrLearnClassifier(epochs=10, random_state=0).fit(x, y, sample_weight=weight) for weight in (None, weights)
    )
    seen = [fitted.history_.records[-1].objects_seen for fitted in (plain, weighted)]
    assert seen[0] == seen[1]
    times = AgrLearnClassifier(epochs=10, random_state=0).fit(x, y, sample_weight=3 * weights)
    numpy.testing.assert_allclose(times.predict_proba(x), weighted.predict_proba(x), rtol=1e-3)
    if heavy >= 10:
        assert (weighted.predict(x) == 0).mean() > (plain.predict(x) == 0).mean()


@pytest.mark.parametrize("weight", [None, 2, 0.5])
def test_what_early_stopping_holds_out_is_not_trained_on_whatever_it_weighs(table, monkeypatch, weight):
    parts = []

    def look_at(network, train, recipe, held_out, **options):
        parts.extend([train, held_out])
        return History((), 0.0, False)

    monkeypatch.setattr("agrlearn.sklearn.fit", look_at)
    x, y = table
    weights = None if weight is None else numpy.full(len(x), weight)
    AgrLearnClassifier(early_stopping=True, random_state=0).fit(x, y, sample_weight=weights)
    rows = [[tuple(row) for row in part.objects.tolist()] for part in parts]
    assert not set(rows[0]) & set(rows[1])
    assert [len(part) for part in rows] == [180, 20]


def test_early_stopping_keeps_the_best_epoch(table):
    x, y = table
    fitted = AgrLearnClassifier(epochs=200, early_stopping=True, patience=5, random_state=0).fit(x, y)
    likelihoods = [record.validation_nll for record in fitted.history_.records]
    best = int(numpy.argmin(likelihoods))
    assert fitted.n_iter_ == best + 1 + 5 < 200


def test_every_protocol_and_a_network_of_ones_own(table):
    x, y = table

    def make(object_shape, num_classes, fold):
        options = {"depth": 1, "width": 32, "join": "features"}
        return build_network("mlp", object_shape=object_shape, num_classes=num_classes, fold=fold, **options)

    for protocol in ("replicated", "batched", "contextual"):
        fitted = AgrLearnClassifier(epochs=10, network=make, protocol=protocol, draws=2, random_state=0).fit(x, y)
        assert fitted.score(x, y) > 0.5
        assert torch.is_tensor(fitted.network_.head.weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "batchd"}, "did you mean 'batched'"),
        ({"fold": 2, "protocol": "batched"}, "slot-blind; use protocol='replicated', or join='features' for vectors"),
        ({"fold": 2.0}, r"a whole number, got 2\.0"),
        ({"network": "mlp"}, "mlp does not take sentences; the networks that do are: sentence-cnn, sentence-lstm"),
    ],
)
def test_what_cannot_work_is_told_before_training(options, message, monkeypatch):
    monkeypatch.setattr("agrlearn.sklearn.fit", lambda *_, **__: pytest.fail("it was trained"))
    with pytest.raises(AgrLearnError, match=message):
        AgrLearnClassifier(**options).fit(["a fine film", "a dull plot"] * 5, ["good", "bad"] * 5)


def test_the_training_objects_are_kept_only_where_prediction_needs_them():
    x, y = make_classification(2000, 8, random_state=0)
    few, many, context = (
        len(pickle.dumps(AgrLearnClassifier(epochs=1, protocol=protocol, join="features").fit(x[:count], y[:count])))
        for count, protocol in ((100, "replicated"), (2000, "replicated"), (2000, "contextual"))
    )
    assert abs(many - few) < 1000 < context - many
    fitted = AgrLearnClassifier(epochs=1).fit(x[:50], y[:50]).set_params(protocol="contextual")
    with pytest.raises(AgrLearnError, match="fit with protocol='contextual'"):
        fitted.predict(x)
