"""Information without a critic, against naive sums and other libraries."""

import math

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_regression
from sklearn.metrics import mutual_info_score

from agrlearn.errors import AgrLearnError, DataError, ShapeError
from agrlearn.information.closed_forms import discrete_information, gaussian_information, ksg_information


def gaussian(count, dimension, nats, seed=0):
    rho = math.sqrt(1 - math.exp(-2 * nats / dimension))
    x, noise = numpy.random.default_rng(seed).standard_normal((2, count, dimension))
    return x, rho * x + math.sqrt(1 - rho**2) * noise


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=4))
def test_counts_give_what_scikit_learn_finds(counts):
    table = numpy.array(counts)
    if table.sum() == 0:
        with pytest.raises(DataError, match="not all zero"):
            discrete_information(table)
        return
    assert discrete_information(table) == pytest.approx(mutual_info_score(None, None, contingency=table), abs=1e-9)
    assert discrete_information(table * 1e-300) == pytest.approx(discrete_information(table), abs=1e-9)


@pytest.mark.parametrize("table", [[[-0.1, 1.1]], [[math.nan, 1]], [1.0, 2.0], [[]]])
def test_what_is_no_distribution_gets_a_sentence(table):
    with pytest.raises(AgrLearnError):
        discrete_information(table)


def test_gaussian_information_is_the_sum_over_independent_coordinates_and_forgets_scales():
    rhos = numpy.array([0.3, 0.9])
    covariance = numpy.block([[numpy.eye(2), numpy.diag(rhos)], [numpy.diag(rhos), numpy.eye(2)]])
    scales = numpy.array([1e-9, 3.0, 1e8, 0.5])
    expected = -0.5 * numpy.log(1 - rhos**2).sum()
    assert gaussian_information(covariance, 2) == pytest.approx(expected)
    assert gaussian_information(covariance * numpy.outer(scales, scales), 2) == pytest.approx(expected)


@pytest.mark.parametrize("covariance", [[[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.2, 1.0]]])
def test_a_covariance_without_finite_information_gets_a_sentence(covariance):
    with pytest.raises(DataError):
        gaussian_information(covariance, 1)
    with pytest.raises(ShapeError):
        gaussian_information(covariance, 2)


@pytest.mark.parametrize("nats", [0.2, 1.0, 4.0])
def test_nearest_neighbours_find_what_scikit_learn_finds_in_one_dimension(nats):
    x, y = gaussian(2000, 1, nats)
    found = ksg_information(x, y)
    assert found == pytest.approx(mutual_info_regression(x, y[:, 0], random_state=0)[0], abs=1e-6)
    assert found == pytest.approx(nats, abs=0.1)
    assert ksg_information(*gaussian(3000, 3, nats)) == pytest.approx(nats, abs=0.12 + 0.1 * nats)


def test_nearest_neighbours_do_with_ties():
    random = numpy.random.default_rng(0)
    x = random.integers(0, 5, 3000)
    assert ksg_information(x, x + 2 * random.random(3000)) == pytest.approx(math.log(5) - 0.8 * math.log(2), abs=0.05)
    bits = random.random((2, 3000)) < 0.5
    assert ksg_information(bits[0], bits[0] | bits[1]) == pytest.approx(0.2158, abs=0.03)
    once = gaussian(500, 1, 1.0)
    assert ksg_information(*(numpy.repeat(part, 3, axis=0) for part in once)) == pytest.approx(ksg_information(*once))


def test_nearest_neighbours_do_with_whole_and_rounded_numbers():
    random = numpy.random.default_rng(0)
    age = random.integers(18, 91, 3000)
    assert ksg_information(age, (age > 54) ^ (random.random(3000) < 0.1)) == pytest.approx(0.368, abs=0.04)
    assert ksg_information(*random.standard_normal((2, 2000)).round(1)) < 0.05
    assert ksg_information(*(part.round(1) for part in gaussian(2000, 1, 1.0))) == pytest.approx(1.0, abs=0.07)


def test_nearest_neighbours_refuse_or_are_right_where_samples_are_awkward():
    x, y = gaussian(300, 1, 1.0)
    assert ksg_information(numpy.ones(300), y) == 0
    assert ksg_information(x * 1e200, y * 1e-200) == pytest.approx(ksg_information(x, y))
    with pytest.raises(DataError, match="at least 5"):
        ksg_information([1.0], [2.0])
    with pytest.raises(DataError, match="NaN"):
        ksg_information([math.nan] * 9, range(9))
    with pytest.raises(DataError, match="at least 1 neighbor"):
        ksg_information(x, y, neighbors=0)
