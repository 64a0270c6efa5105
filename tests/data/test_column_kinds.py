"""Which column is the label, and what the others are."""

import random

import pytest

from agrlearn.data.column_kinds import choose_kinds, guess_kind, guess_label
from agrlearn.errors import DataError, UnknownNameError

ROWS = 100
RANDOM = random.Random(0)
FRACTIONS = [f"{RANDOM.gauss(0, 1):.3f}" for _ in range(ROWS)]
COLUMNS = {
    "age": ([str(RANDOM.randint(18, 90)) for _ in range(ROWS)], "number"),
    "height": (["", "NA", "?", *FRACTIONS[3:]], "number"),
    "typo": (["huh", *FRACTIONS[1:]], "number"),
    "pressure": ([None, *map(float, FRACTIONS[1:])], "number"),
    "smoker": (["yes", "no", "No", ""] * 25, "boolean"),
    "flag": ([True, False] * 50, "boolean"),
    "letters": (["f", "n"] * 50, "words"),  # both could mean no, so it is neither
    "sex": (["male", "female"] * 50, "words"),
    "city": (["New York", "San Jose", "Bath"] * 33 + ["Rome"], "words"),
    "grade": (["1", "2", "A", "B"] * 25, "words"),
    "joined": ([f"2024-03-{1 + row % 28:02}" for row in range(ROWS)], "date"),
    "born": ([f"{1 + row % 28}.{1 + row % 12}.1990" for row in range(ROWS)], "date"),
    "note": ([f"a fine film, number {row}" for row in range(ROWS)], "text"),
    "ticket": ([f"A{row % 80}" for row in range(ROWS)], "words"),
    "Id": ([str(1000 + 7 * (row // 2 if row < 8 else row)) for row in range(ROWS)], "identifier"),
    "customerID": ([f"c{row:05}" for row in range(ROWS)], "identifier"),
    "store_id": ([str(row % 5) for row in range(ROWS)], "words"),
    "count": ([str(row) for row in range(ROWS)], "identifier"),
    "key": ([f"{row:x}{row * 7919:x}" for row in range(ROWS)], "identifier"),
    "Unnamed: 0": (FRACTIONS, "identifier"),
    "unit": (["cm"] * ROWS, "constant"),
    "empty": ([""] * ROWS, "constant"),
    "paid": ([str(row * row) for row in range(ROWS)], "number"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_is_recognised(name):
    cells, kind = COLUMNS[name]
    assert guess_kind(name, cells).name == kind


@pytest.mark.parametrize("name", ["Id", "customerID", "count", "key"])
def test_an_identifier_that_the_user_wants_is_used(name):
    table = {name: COLUMNS[name][0], "age": COLUMNS["age"][0]}
    assert not choose_kinds(table, None)[name].is_used
    assert choose_kinds(table, None, [name])[name].is_used
    assert choose_kinds(table, None, [f"{name}=words"])[name].name == "words"


def test_the_user_says_which_columns_are_used():
    table = {name: cells for name, (cells, _) in COLUMNS.items()}
    chosen = choose_kinds(table, "sex", ["age,city", "grade=text"])
    assert [name for name, kind in chosen.items() if kind.is_used] == ["age", "city", "grade"]
    assert chosen["grade"].name == "text"
    assert "sex" not in chosen
    left = choose_kinds(table, None, ignore=["age", "city"])
    assert (left["age"].why, left["sex"].name) == ("--ignore", "words")
    for wrong in ({"columns": ["agee"]}, {"ignore": ["agee"]}):
        with pytest.raises(UnknownNameError, match="did you mean 'age'"):
            choose_kinds(table, None, **wrong)
    with pytest.raises(UnknownNameError, match="did you mean 'words'"):
        choose_kinds(table, None, ["age=word"])


def test_the_label_may_stand_among_the_columns_but_is_no_feature_to_ignore():
    table = {name: cells for name, (cells, _) in COLUMNS.items()}
    assert choose_kinds(table, "sex", ["age", "sex"]) == choose_kinds(table, "sex", ["age"])
    with pytest.raises(DataError, match="'sex' is taken for the label"):
        choose_kinds(table, "sex", ignore=["age,sex"])


def test_a_name_with_a_comma_or_an_equals_sign_is_a_name():
    table = {"size, cm": FRACTIONS, "a=b": FRACTIONS}
    assert all(kind.is_used for kind in choose_kinds(table, None, ["size, cm", "a=b"]).values())


def test_the_label_is_guessed_by_its_name_or_its_place_and_never_where_it_cannot_be_one():
    sex, ages = COLUMNS["sex"][0], COLUMNS["age"][0]
    assert guess_label({"age": ages, "Survived": sex, "port": sex}) == ("Survived", "because of its name")
    name, why = guess_label({"age": ages, "height": FRACTIONS, "port": sex})
    assert (name, why.partition(";")[0]) == ("port", "because it is the last column")
    assert "--label" in why
    name, why = guess_label({"port": sex, "age": ages, "height": FRACTIONS})
    assert (name, why.partition(";")[0]) == ("port", "because it is the first column")
    with pytest.raises(DataError, match=r"the last one, 'height', is different in nearly every row; name .* --label"):
        guess_label({"weight": FRACTIONS, "height": FRACTIONS})


def test_long_whole_numbers_that_differ_in_their_last_digits_alone_are_identifiers():
    assert guess_kind("id", [str(10**18 + row) for row in range(60)]).name == "identifier"
