"""How each kind of column becomes features, from JSON as from training."""

import json
import math
import warnings

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.feature_extraction import FeatureHasher
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, PowerTransformer

from agrlearn.data.cells import as_word
from agrlearn.data.cleaning import split_words
from agrlearn.data.columns import Boolean, Number
from agrlearn.data.date_columns import Date
from agrlearn.data.preparation import TablePreparation, table_preparation
from agrlearn.data.word_columns import Words

COLUMNS = {
    "numbers": (Number.learn, ["1", "2.5", "", "NA", "4"]),
    "booleans": (Boolean.learn, ["yes", "No", "", "yes", "no"]),
    "dates": (Date.learn, ["2024-01-31", "2023-12-01 18:30", "", "2022-02-28", "2022-02-01"]),
    "words": (Words.learn, ["red", "red", "blue", "blue", "green"]),
    "texts": (lambda name, cells: Words.learn(name, cells, text=True), ["a b", "b c", "", "a b c", "d"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_that_was_saved_as_json_does_the_same(kind):
    learn, cells = COLUMNS[kind]
    column = learn("a", cells)
    saved = TablePreparation(columns=[column], label=None).model_dump(mode="json")
    loaded = table_preparation(json.loads(json.dumps(saved)))
    new = [*cells, "3", "never seen", None, math.nan]
    numpy.testing.assert_array_equal(loaded.apply({"a": new}), column.apply(new))
    assert column.apply(new).shape == (len(new), column.width) == (len(new), loaded.width)
    assert numpy.isfinite(column.apply(new)).all()


def test_a_gap_becomes_the_median_and_is_flagged_as_scikit_learn_does_it():
    values = [3.0, math.nan, 1.0, 7.0, math.nan]
    expected = SimpleImputer(strategy="median", add_indicator=True).fit_transform(numpy.array(values)[:, None])
    column = Number.learn("a", ["3", "", "1", "7", "?"])
    numpy.testing.assert_array_equal(column.apply(values), expected)
    assert "2 gaps filled with 3 and flagged" in column.describe(values)
    whole = Number.learn("a", [1, 2, 4])
    assert whole.apply([None]).tolist() == [[2.0]]  # no flag that training has never seen raised


def test_numbers_that_are_not_heavy_tailed_stay_as_they_are():
    values = numpy.random.default_rng(0).normal(size=200).tolist()
    assert Number.learn("a", values).apply(values)[:, 0].tolist() == values


def test_heavy_tailed_numbers_are_drawn_together_as_scikit_learn_does_it():
    values = numpy.exp(2 * numpy.random.default_rng(0).normal(size=400))
    column = Number.learn("a", values.tolist())
    lower, middle, upper = numpy.quantile(values, [0.25, 0.5, 0.75])
    scaled = (values[:, None] - middle) / (upper - lower)
    expected = PowerTransformer(standardize=False).fit_transform(scaled)
    numpy.testing.assert_allclose(column.apply(values.tolist()), expected, rtol=1e-6)
    ends = column.apply([values.min(), values.max()])
    numpy.testing.assert_array_equal(column.apply([-1e30, 1e30]), ends)  # what is beyond counts as the end
    assert "heavy-tailed" in column.describe(values)


@settings(deadline=None)
@given(st.lists(st.floats(-3e38, 3e38), min_size=1, max_size=40), st.floats(-3e38, 3e38))
def test_numbers_stay_finite_whatever_they_are(values, new):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = Number.learn("a", values).apply([*values, new, None])
        assert numpy.isfinite(made.astype(numpy.float32)).all()


def test_a_cell_that_is_no_number_or_date_is_told_but_a_missing_one_is_not():
    cells = ["1", "huh", "", "inf", "n/a", None, "1e39", math.nan]
    assert list(Number.learn("a", cells).check(cells)) == [1, 3, 6]
    assert "holds 'huh', which is not a finite number" in Number.learn("a", cells).check(cells)[1]
    days = Date.learn("a", ["31/12/2024", "01/02/2024", "", "2024"])
    assert days.check(["31/12/2024", "31/13/2024", "", "?"]) == {
        1: "the column 'a' holds '31/13/2024', which is not a date like day/month/year"
    }


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["2024-01-31", "2024-02-01T08:00:00Z"], "year-month-day"),
        (["1/2/2024", "1/31/2024"], "month/day/year"),
        (["1/2/2024", "31/1/2024"], "day/month/year"),
        (["1.2.2024", "31.1.2024 08:15"], "day.month.year"),
    ],
)
def test_the_form_of_dates_is_the_one_that_reads_them_all(cells, form):
    assert Date.learn("a", cells).form == form


def test_dates_become_their_parts():
    days = Date.learn("a", ["2024-02-29 18:30", "2023-12-31", None])
    assert days.apply(["2024-02-29 18:30"]).tolist() == [[2024, 2, 29, 3, 18, 0]]
    assert days.apply([""]).tolist() == [[2023.5, 7, 30, 4.5, 9, 1]]
    assert Date.learn("a", ["2024-02-29", "2023-12-31"]).width == 4  # no times, no hour


def test_words_are_one_hot_as_scikit_learn_does_it_and_the_rare_and_new_share_a_place():
    cells = ["red"] * 3 + ["blue"] * 2 + ["green", "brown"]
    encoder = OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist", sparse_output=False)
    rows = numpy.array([*cells, "never seen"])[:, None]
    expected = encoder.fit(rows[:-1]).transform(rows)
    column = Words.learn("a", cells)
    assert column.words == ["red", "blue"]
    assert sorted(map(tuple, column.apply(rows[:, 0]).T)) == sorted(map(tuple, expected.T))
    assert column.apply(["green"]).tolist() == column.apply(["never seen"]).tolist() == [[0, 0, 1]]


def test_a_new_word_is_none_of_the_known_ones_if_training_had_no_rare_ones():
    column = Words.learn("a", ["red", "red", "blue", "blue"])
    assert column.apply(["never seen", "", None, "red"]).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]


def test_an_empty_cell_has_a_place_of_its_own_where_training_had_some():
    column = Words.learn("a", ["red", "red", "", None])
    assert column.apply(["", None, "red"]).tolist() == [[1, 0], [1, 0], [0, 1]]


def test_of_many_words_the_rare_ones_are_hashed():
    cells = [f"ticket {number}" for number in range(500)] + ["ticket 7"] * 20
    column = Words.learn("a", cells)
    assert column.words == ["ticket 7"]
    assert column.width == 1 + 5  # a place for every hundred rows
    assert (column.apply(cells).sum(axis=1) == 1).all()


def test_words_do_not_depend_on_the_order_of_rows():
    cells = [f"word{number % 90}" for number in range(400)]
    order = numpy.random.default_rng(0).permutation(400)
    assert Words.learn("a", cells) == Words.learn("a", [cells[place] for place in order])


def test_the_words_of_a_text_count_once_each():
    column = Words.learn("a", ["Dear Mr. Smith, dear", "Dear Mrs. Jones", "Mrs. Smith"], text=True)
    found = dict(zip(column.words, column.apply(["Mr. Smith and Smith"])[0], strict=False))
    assert found["smith"] == 1
    assert found["dear"] == 0


@given(st.lists(st.text(max_size=9), min_size=1, max_size=20), st.integers(1, 40), st.booleans())
def test_words_get_the_places_that_scikit_learn_gives_them(cells, others, text):
    split = [split_words(as_word(cell)) if text else [as_word(cell)] for cell in cells]
    known = sorted({word for words in split[::2] for word in words})
    found = Words(column="w", words=known, others=others, text=text).apply(cells)
    hasher = FeatureHasher(others, input_type="string", alternate_sign=False)
    rare = hasher.transform([[word for word in words if word not in {"", *known}] for words in split]).toarray()
    present = numpy.array([[word in words for word in known] for words in split], dtype=float).reshape(len(cells), -1)
    assert numpy.array_equal(found, numpy.hstack([present, rare > 0]))


@given(st.floats(-5, 5), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_a_heavy_tail_is_drawn_together_as_scikit_learn_does_it(power, values):
    tail = {"low": -1e6, "high": 1e6, "center": 0.0, "scale": 1.0, "power": power}
    found = Number(column="n", median=0.0, gaps=False, tail=tail).apply(numpy.array(values))[:, 0]
    with numpy.errstate(over="ignore"):
        expected = values if power == 1 else stats.yeojohnson(numpy.array(values), power)
    assert numpy.allclose(found, expected, rtol=1e-12, atol=0)
