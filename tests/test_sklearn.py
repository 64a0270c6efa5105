"""The scikit-learn estimator."""

import pickle
import time

import numpy
import pandas
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

from agrlearn.data.datasets import open_source
from agrlearn.data.labelled import LabelledSet
from agrlearn.data.ordering import canonical_order
from agrlearn.errors import AgrLearnError, DataError, ShapeError
from agrlearn.networks.aggregated import AggregatedClassifier
from agrlearn.networks.catalogue import build_network
from agrlearn.sklearn import AgrLearnClassifier
from agrlearn.training.history import History


def expected_failures(estimator):
    reason = "a weight multiplies a row's loss; repeated rows also make an epoch longer"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


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


@pytest.fixture(scope="module")
def frame():
    """A table with gaps, words, dates and an identifier, and its labels."""
    chance = numpy.random.default_rng(0)
    size = chance.normal(size=300)
    colour = chance.choice(["red", "green", "blue"], 300)
    table = pandas.DataFrame(
        {
            "customer_id": 1000 + chance.permutation(300),
            "size": numpy.where(chance.random(300) < 0.2, numpy.nan, size),
            "colour": pandas.Series(colour).where(chance.random(300) < 0.9),
            "shade": pandas.Categorical(chance.choice(["light", "dark"], 300)),
            "member": chance.random(300) < 0.5,
            "day": pandas.Timestamp("2024-01-01") + pandas.to_timedelta(chance.integers(0, 300, 300), unit="D"),
            "price": numpy.exp(2 * chance.normal(size=300)),
        }
    )
    return table, numpy.where(size + 2 * (colour == "red") > 0.5, "yes", "no")


def test_a_frame_with_gaps_and_words_is_prepared_as_a_file_is(frame, tmp_path):
    table, y = frame
    with pytest.warns(UserWarning, match="left out: 'customer_id' "):
        fitted = AgrLearnClassifier(epochs=15, random_state=0).fit(table, y)
    assert fitted.score(table, y) > 0.8
    assert fitted.n_features_in_ == 7
    table.assign(label=y).to_csv(tmp_path / "t.csv", index=False)
    read = open_source(str(tmp_path / "t.csv"))
    assert fitted.preparation_.model_dump()["columns"] == read.preparation["columns"]
    new = table[:3].assign(size=numpy.nan, colour=["purple", None, "red"], day=pandas.NaT)
    assert numpy.isfinite(fitted.predict_proba(new)).all()
    thawed = pickle.loads(pickle.dumps(fitted))
    numpy.testing.assert_array_equal(fitted.predict_proba(new), thawed.predict_proba(new))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(table.rename(columns={"size": "weight"}))


@pytest.mark.parametrize("kind", ["int64", "str"])
def test_numbers_that_a_frame_declares_categorical_are_words(kind):
    codes = pandas.Series([1010, 8001, 4051, 2000] * 15).astype(kind)
    y = numpy.where(codes.isin([codes[0], codes[2]]), "a", "b")  # no threshold parts them
    table = pandas.DataFrame({"age": numpy.arange(60.0) % 7, "zip": codes.astype("category")})
    fitted = AgrLearnClassifier(epochs=15, random_state=0).fit(table, y)
    assert [column.kind for column in fitted.preparation_.columns] == ["number", "words"]
    assert fitted.score(table.assign(zip=codes), y) == 1  # by their values, however they are stored


@pytest.mark.filterwarnings("ignore:left out")
def test_a_frame_does_not_depend_on_the_order_of_its_rows_and_cross_validates(frame):
    table, y = frame
    order = numpy.random.default_rng(1).permutation(len(y))
    first = AgrLearnClassifier(epochs=2, random_state=0).fit(table, y)
    again = clone(first).fit(table.iloc[order], y[order])
    assert first.preparation_ == again.preparation_
    numpy.testing.assert_array_equal(first.predict_proba(table), again.predict_proba(table))
    assert cross_val_score(AgrLearnClassifier(epochs=15, random_state=0), table, y, cv=3).mean() > 0.7


def test_numbers_with_gaps_are_taken_and_infinite_ones_are_not(table):
    x, y = table
    holes = numpy.where(numpy.random.default_rng(0).random(x.shape) < 0.1, numpy.nan, x)
    fitted = AgrLearnClassifier(epochs=10, random_state=0).fit(holes, y)
    assert fitted.score(holes, y) > 0.6
    assert fitted.preparation_.width == 16  # a flag for every feature
    whole = AgrLearnClassifier(epochs=10, random_state=0).fit(x, y)
    assert whole.preparation_ is None
    middle = numpy.where(numpy.isnan(holes), numpy.median(x, axis=0), holes)
    numpy.testing.assert_array_equal(whole.predict_proba(holes), whole.predict_proba(middle))
    with pytest.raises(ValueError, match="infinity"):
        AgrLearnClassifier().fit(numpy.where(holes > 2, numpy.inf, holes), y)


SENTENCES = ["a fine and moving film", "what a fine cast", "a dull and empty film", "what a dull plot"] * 10
OPINIONS = ["pos", "pos", "neg", "neg"] * 10


@pytest.mark.parametrize(
    "wrap", [lambda texts: pandas.DataFrame({"review": texts}), lambda texts: numpy.array(texts, dtype=object)[:, None]]
)
def test_a_table_with_one_column_of_texts_is_a_list_of_sentences(wrap):
    expected = AgrLearnClassifier(epochs=2, random_state=0).fit(SENTENCES, OPINIONS)
    fitted = AgrLearnClassifier(epochs=2, random_state=0).fit(wrap(SENTENCES), OPINIONS)
    new = ["a fine plot", "a dull cast"]
    numpy.testing.assert_array_equal(fitted.predict_proba(wrap(new)), expected.predict_proba(new))
    with pytest.raises(ValueError, match="a sentence in every row, got None in row 1"):
        fitted.predict(wrap(["a fine film", None]))


def test_sparse_matrices_are_taken_as_text_vectorizers_make_them():
    piped = make_pipeline(TfidfVectorizer(), AgrLearnClassifier(epochs=20, random_state=0)).fit(SENTENCES, OPINIONS)
    assert list(piped.predict(["a fine film", "a dull film"])) == ["pos", "neg"]


def test_a_wide_table_is_ordered_in_no_time():
    x = numpy.random.default_rng(0).normal(size=(300, 20_000)).astype(numpy.float32)
    data = LabelledSet(torch.from_numpy(x), torch.zeros(300, dtype=torch.int64), ("a", "b"))
    start = time.perf_counter()
    assert x[canonical_order(data).numpy(), 0].tolist() == sorted(x[:, 0].tolist())
    assert time.perf_counter() - start < 1


def test_class_weights_multiply_those_of_samples(table):
    x, y = table

    def probabilities(sample_weight=None, **options):
        return AgrLearnClassifier(epochs=4, random_state=0, **options).fit(x, y, sample_weight).predict_proba(x)

    numpy.testing.assert_array_equal(probabilities(class_weight={0: 3, 1: 1, 2: 1}), probabilities(1 + 2 * (y == 0)))
    rare = y != 0
    rare[::5] = True
    x, y = x[rare], y[rare]
    balanced = compute_sample_weight("balanced", y)
    numpy.testing.assert_array_equal(probabilities(class_weight="balanced"), probabilities(balanced))
    half = numpy.where(y == 1, 0.5, 1)
    numpy.testing.assert_array_equal(probabilities(half, class_weight="balanced"), probabilities(half * balanced))


@pytest.mark.parametrize("rate", [10.0, 1e4])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_learning_rate_that_is_too_large_ends_with_answers_or_a_sentence(table, rate, early_stopping):
    x, y = table
    unstable = AgrLearnClassifier(
        epochs=5, optimizer="sgd", learning_rate=rate, early_stopping=early_stopping, random_state=0
    )
    try:
        assert numpy.isfinite(unstable.fit(x, y).predict_proba(x)).all()
    except AgrLearnError as error:
        assert "lower" in str(error)


@pytest.mark.filterwarnings("error")
def test_metrics_take_the_probabilities_without_a_warning():
    x, y = load_iris(return_X_y=True)
    log_loss(y, AgrLearnClassifier(epochs=3, random_state=0).fit(x, y).predict_proba(x))


def test_an_array_or_a_list_of_rows_with_words_is_a_table_and_answers_as_its_frame_does():
    random = numpy.random.default_rng(0)
    frame = pandas.DataFrame({"0": random.normal(size=60), "1": random.choice(["red", "blue", None], 60)})
    y = (frame["1"] == "red").to_numpy()
    expected = AgrLearnClassifier(epochs=2, random_state=0).fit(frame, y).predict_proba(frame)
    for rows in (frame.to_numpy(), frame.to_numpy().tolist()):
        fitted = AgrLearnClassifier(epochs=2, random_state=0).fit(rows, y)
        assert fitted.n_features_in_ == 2
        numpy.testing.assert_array_equal(fitted.predict_proba(rows), expected)
    with pytest.raises(DataError, match="the rows have 2 to 3 cells"):
        AgrLearnClassifier().fit([[1, "a"], [2, "b", 3]], [0, 1])


def test_images_of_another_size_than_in_training_are_refused():
    images = numpy.random.default_rng(0).normal(size=(20, 5, 6))
    fitted = AgrLearnClassifier(epochs=1, random_state=0).fit(images, [0, 1] * 10)
    with pytest.raises(ShapeError, match=r"expected objects of shape \(1, 5, 6\), as in training, got \(1, 5, 5\)"):
        fitted.predict(images[:, :, 1:])
