"""The benchmarks themselves are not run here; what they write their results with is."""

import doctest

import pytest
import torch

from agrlearn import LabelledSet, aggregate, group, single


@pytest.fixture
def benchmarks(checkout):
    import benchmarks.__main__ as main

    return main


def test_a_benchmark_replaces_its_own_section_and_leaves_the_others_apart(benchmarks, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmarks, "RESULTS", tmp_path / "benchmarks.md")
    benchmarks.write_section("Growth", "| a | 1 |")
    benchmarks.write_section("Training step", "| b | 2 |")
    benchmarks.write_section("Growth", "| c | 3 |")
    text = benchmarks.RESULTS.read_text()
    assert text.endswith("\n\n## Training step\n\n| b | 2 |\n\n## Growth\n\n| c | 3 |\n")
    assert "| a | 1 |" not in text


def test_every_benchmark_says_what_it_compares_and_has_its_section_in_the_results(benchmarks):
    sections = benchmarks.RESULTS.read_text()
    for name, (title, benchmark) in benchmarks.BENCHMARKS.items():
        assert benchmark.__doc__
        assert f"\n\n## {title}\n\n" in sections
        assert f"`python -m benchmarks {name}`" in sections


def test_the_examples_of_the_timing_hold(benchmarks):
    from benchmarks import timing

    assert doctest.testmod(timing).attempted > 0
    assert doctest.testmod(timing).failed == 0


def test_an_unknown_benchmark_gets_a_sentence(benchmarks, monkeypatch):
    monkeypatch.setattr("sys.argv", ["benchmarks", "stepps"])
    with pytest.raises(SystemExit, match="steps"):
        benchmarks.main()


def test_the_pages_of_evidence_are_made_from_the_runs_beside_them(checkout):
    from benchmarks import penalty, why
    from benchmarks.evidence import page

    assert (checkout / "results" / "evidence.md").read_text() == page.page()
    assert (checkout / "results" / "why.md").read_text() == why.page()
    assert (checkout / "results" / "penalty.md").read_text() == penalty.page()
    assert doctest.testmod(page).attempted > 0
    assert doctest.testmod(page).failed == 0


def test_the_page_of_pretrained_models_is_made_from_the_runs_beside_it(checkout):
    from benchmarks.pretrained import page

    assert (checkout / "results" / "pretrained.md").read_text() == page.page()


def test_pretrained_models_give_scores_and_train_in_groups(checkout):
    from benchmarks.pretrained import models

    if missing := models.missing_packages():
        pytest.skip(f"{', '.join(missing)}: not installed; ./run bench installs what is in benchmarks/neighbours.txt")
    objects = {
        "sentences": torch.tensor([[101, 2023, 102, 0], [101, 2023, 2003, 102]]),
        "images": torch.randint(256, (2, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)),
    }
    for kind, some in objects.items():
        model = models.make_model(kind, 3)
        network = aggregate(model, 2, some, join="mean", verbose=False)
        assert network.conversion.difference < 1e-4
        alone = model.eval()(some)
        torch.testing.assert_close(single(network)(some), alone)
        assert not torch.allclose(alone[0], alone[1])
        network(group(some, 2)).sum().backward()
        assert all(weight.grad is not None for weight in network.parameters())


def test_what_rates_are_chosen_on_is_in_no_test_part(checkout):
    from benchmarks.pretrained.models import Data

    numbers = torch.arange(7000)[:, None].repeat(1, 3)
    for test in (None, LabelledSet(100_000 + numbers, torch.zeros(7000, dtype=torch.int64), ("a", "b"))):
        data = Data(LabelledSet(numbers, torch.zeros(7000, dtype=torch.int64), ("a", "b")), test)
        choosing = data.for_choosing(1000)
        aside = {*choosing.train.objects[:, 0].tolist(), *choosing.test.objects[:, 0].tolist()}
        assert len(aside) == 3000
        for count in (1000, None):
            parts = data.split(count, seed=1)
            tested, trained = (set(part.objects[:, 0].tolist()) for part in (parts.test, parts.train))
            assert len(tested) == 2000
            assert not tested & (aside | trained)
            assert len(trained) == (1000 if count else 7000 if test else 5000)
