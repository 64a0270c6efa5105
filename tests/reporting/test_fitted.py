"""A fitted estimator gets the page of a run: what it measures is what the estimator answers."""

import numpy
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import confusion_matrix, log_loss

from agrlearn import AgrLearnClassifier, report
from agrlearn.errors import AgrLearnError


@pytest.fixture(scope="module")
def parts():
    x, y = load_iris(return_X_y=True)
    labels = numpy.array(["setosa", "versicolor", "virginica"])[y]
    return (x[::2], labels[::2]), (x[1::2], labels[1::2])


@pytest.fixture(scope="module")
def classifier(parts):
    return AgrLearnClassifier(epochs=12, random_state=0).fit(*parts[0])


def test_the_page_of_an_estimator_measures_what_it_answers(classifier, parts, tmp_path):
    rows, labels = parts[1]
    made = report(classifier, tmp_path / "page.html", data=(rows, labels), title="Iris")
    found = made.measured[0]
    assert numpy.array_equal(found.confusion, confusion_matrix(labels, classifier.predict(rows)))
    assert found.means["nll"].value == pytest.approx(log_loss(labels, classifier.predict_proba(rows)), rel=1e-4)
    assert made.headline.row.scores["error"].value == pytest.approx(1 - classifier.score(rows, labels))
    assert made.training[0].series and made.comparison[0].steps == 12 * 3
    page = (tmp_path / "page.html").read_text()
    assert all(text in page for text in ("Iris", "virginica", "75 objects", "AgrLearnClassifier(epochs=12"))


def test_without_data_the_page_shows_training_and_says_so(parts, tmp_path):
    classifier = AgrLearnClassifier(epochs=3, early_stopping=True, random_state=0).fit(*parts[0])
    made = report(classifier, tmp_path / "page.html")
    assert made.headline is None and made.training
    assert "none were given" in (tmp_path / "page.html").read_text()


def test_sentences_are_shown_by_their_words(tmp_path):
    sentences = ["a good film", "a bad film", "good, and not bad", "bad"] * 5
    classifier = AgrLearnClassifier(epochs=1, random_state=0).fit(sentences, [1, 0, 1, 0] * 5)
    made = report(classifier, tmp_path / "page.html", data=(sentences, [1, 0, 1, 0] * 5))
    assert {hard.text for hard in made.measured[0].hardest} <= {*sentences[:2], "good , and not bad", "bad"}


def test_what_cannot_be_reported_gets_a_sentence(classifier, parts, tmp_path):
    rows, labels = parts[1]
    for source, data, message in (
        (AgrLearnClassifier(), None, "fit it first"),
        (classifier, "iris.csv", r"data=\(X, y\)"),
        (classifier, (rows, labels[:-1]), "one label for each of 75 rows, got 74"),
        (classifier, (rows, ["rose"] * 75), "does not know the class rose"),
        (tmp_path, (rows, labels), "name their file"),
    ):
        with pytest.raises(AgrLearnError, match=message):
            report(source, tmp_path / "page.html", data=data)
    with pytest.raises(AgrLearnError, match="a fitted classifier needs none of them"):
        report(classifier, tmp_path / "page.html", network="mlp")


def test_labels_are_compared_by_value(tmp_path):
    x, y = load_iris(return_X_y=True)
    classifier = AgrLearnClassifier(epochs=2, random_state=0).fit(x, y)
    made = report(classifier, tmp_path / "page.html", data=(x, y.astype(float)))
    assert numpy.array_equal(made.measured[0].confusion, confusion_matrix(y, classifier.predict(x)))
