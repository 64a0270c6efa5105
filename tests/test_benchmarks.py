"""The benchmarks themselves are not run here; what they write their results with is."""

import doctest

import pytest


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
    from benchmarks import why
    from benchmarks.evidence import page

    assert (checkout / "results" / "evidence.md").read_text() == page.page()
    assert (checkout / "results" / "why.md").read_text() == why.page()
    assert doctest.testmod(page).attempted > 0
    assert doctest.testmod(page).failed == 0
