"""The page in a real browser: drawn, quiet, and answering to the mouse, the keys and the run picker."""

import dataclasses
import os
import re
import signal
import subprocess
import sys

import numpy
import pytest

from agrlearn.reporting.page import render
from tests.reporting.browser import Browser, needs_browser, wait_for
from tests.reporting.conftest import HOSTILE, QUOTED

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def address(report, tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("page") / "a report.html"
    file.write_text(render(report))
    return file.as_uri()


@pytest.fixture
def open_page(browser, address):
    opened = []

    def open_page(url=address, **options):
        opened.append(browser.open(url, **options))
        return opened[-1]

    yield open_page
    for page in opened:
        assert page.complaints == []
        page.close()


def test_every_chart_is_drawn_without_a_complaint(open_page):
    page = open_page()
    charts = page.run("[...document.querySelectorAll('figure.chart')].map(figure => figure.id)")
    assert {"chart-loss", "chart-error", "chart-penalty", "chart-dial-error", "chart-reliability", "chart-heads"} <= {
        *charts
    }
    for chart in charts:
        assert page.count(f"#{chart} svg .curve, #{chart} svg .mark") >= 2, chart
        assert page.count(f"#{chart} svg[role=img][aria-label] desc") == 1
    assert page.count("#chart-error .band") == 4
    assert (
        page.run("[...document.querySelectorAll('path')].some(path => /NaN|undefined/.test(path.outerHTML))") is False
    )


def test_hostile_names_are_text(open_page):
    page = open_page()
    assert page.count("script") == 2
    assert page.count("img[src=q], main b") == 0
    text = page.run("document.body.textContent")
    assert HOSTILE in text
    assert QUOTED in text
    page.mouse("mouseMoved", *page.place("#chart-error .plot", 0.4))
    assert 'fold1 "x" <img src=q>' in page.run("document.querySelector('#chart-error .tip').textContent")
    assert page.count(".tip img") == 0


def test_hovering_shows_the_numbers(open_page):
    page = open_page()
    assert page.run("document.querySelector('#chart-loss .tip').hidden")
    page.mouse("mouseMoved", *page.place("#chart-loss .plot"))
    assert not page.run("document.querySelector('#chart-loss .tip').hidden")
    tip = page.run("document.querySelector('#chart-loss .tip').textContent")
    assert "objects seen" in tip
    assert re.search(r"\d", tip)
    page.mouse("mouseMoved", *page.place("#chart-dial-error .plot .mark"))
    assert "multiply-adds" in page.run("document.querySelector('#chart-dial-error .tip').textContent")


def test_a_finger_shows_the_numbers_as_well(open_page):
    page = open_page(width=390)
    x, y = page.place("#chart-loss .plot")
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert "objects seen" in page.run("document.querySelector('#chart-loss .tip').textContent")
    assert not page.run("document.querySelector('#chart-loss .tip').hidden")


def ticks(page, chart="loss") -> str:
    return page.run(f"[...document.querySelectorAll('#chart-{chart} .plot text')].map(t => t.textContent).join(' ')")


def test_dragging_zooms_and_a_double_click_goes_back(open_page):
    page = open_page()
    before = ticks(page)
    x, y = page.place("#chart-loss .plot", 0.3)
    page.mouse("mousePressed", x, y)
    page.mouse("mouseMoved", x + 150, y, clicks=1)
    assert page.count("#chart-loss .selection") == 1
    page.mouse("mouseReleased", x + 150, y)
    assert ticks(page) != before
    assert page.run("!document.querySelector('#chart-loss .tools button').hidden")
    for clicks in (1, 2):
        page.mouse("mousePressed", x, y, clicks=clicks)
        page.mouse("mouseReleased", x, y, clicks=clicks)
    assert ticks(page) == before


def test_the_keys_reach_every_point_and_zoom(open_page):
    page = open_page()
    page.run("document.querySelector('#chart-loss .plot').focus()")
    page.press("ArrowRight")
    first = page.run("document.querySelector('#chart-loss .tip').textContent")
    page.press("ArrowRight")
    assert page.run("document.querySelector('#chart-loss .tip').textContent") != first
    before = ticks(page)
    page.press("+")
    assert ticks(page) != before
    page.press("Escape")
    assert ticks(page) == before


def test_the_x_axis_and_the_scale_can_be_chosen(open_page):
    page = open_page()
    before = ticks(page)
    page.run(
        "(() => { const s = document.querySelector('#chart-loss select'); s.value = 1;"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert "epochs" in ticks(page)
    page.click("#chart-loss input")
    assert ticks(page) != before


def test_the_run_picker_hides_a_setting_everywhere(open_page):
    page = open_page()
    before = page.count("#chart-loss .curve")
    page.click("[data-pick='0']")
    assert page.count("#chart-loss .curve") == before - 1
    assert page.run("document.querySelector(\"[data-pick='0']\").getAttribute('aria-pressed')") == "false"
    assert page.run("[...document.querySelectorAll(\"[data-setting='0']\")].every(element => element.hidden)")
    page.click("#pick-all")
    assert page.count("#chart-loss .curve") == before


def test_the_numbers_of_a_chart_are_a_table_as_well(open_page):
    page = open_page()
    page.run("document.querySelector('#chart-loss details').open = true")
    wait_for(lambda: page.count("#chart-loss tbody tr") == 8, "the table")


@pytest.mark.parametrize("width", [320, 400, 1200, 1400])
def test_nothing_sticks_out_of_the_page_or_is_cut_off(open_page, width):
    page = open_page(width=width)
    page.run("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    wait_for(lambda: page.count("#chart-loss tbody tr") == 8, "the table")
    assert page.run("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('.scroll, pre')].filter(box => box.scrollWidth > box.clientWidth)"
    assert page.run(f"{cut}.map(box => box.ariaLabel ?? box.textContent)") == []


def test_on_a_narrow_screen_every_number_has_the_heading_of_its_column(open_page):
    page = open_page(width=400)
    cell = "#overview tbody td:nth-of-type(4)"
    assert page.run(f"document.querySelector('{cell}').dataset.label") == "error %\N{NO-BREAK SPACE}↓"
    assert "error %" in page.run(f"getComputedStyle(document.querySelector('{cell}'), '::before').content")


def test_the_legend_holds_only_what_is_drawn(open_page):
    page = open_page()

    def legend(chart):
        return page.run(f"[...document.querySelectorAll('#chart-{chart} .keys')].map(key => key.textContent)")

    assert legend("dial-error") == ["replicated", "batched", "contextual"]
    assert legend("error") == ["held-out", "in training"]  # no run has patience
    page.click("[data-pick='1']")
    assert legend("dial-error") == ["replicated"]  # of a network with fold 1


def test_of_networks_without_errors_nothing_is_cut_off_and_no_error_is_below_zero(open_page, report, tmp_path):
    def without_errors(chart):
        zeros = [
            dataclasses.replace(series, low=None, high=None, **(
                {"x": ((0.0,) * len(series.y),)} if chart.id == "heads" else {"y": (0.0,) * len(series.y)}
            ))
            for series in chart.series
        ]  # fmt: skip
        return dataclasses.replace(chart, series=tuple(zeros))

    perfect = dataclasses.replace(
        report, dial=tuple(map(without_errors, report.dial)), heads=without_errors(report.heads)
    )
    (tmp_path / "page.html").write_text(render(perfect))
    page = open_page((tmp_path / "page.html").as_uri(), width=400)
    assert page.count("#chart-dial-error .label") >= 6
    lowest = "Math.max(...[...document.querySelectorAll('#chart-dial-error .label')].map(label => bottom(label)))"
    clip = "bottom(document.querySelector('#chart-dial-error clipPath rect'))"
    bottom = "const bottom = element => { const box = element.getBBox(); return box.y + box.height; };"
    assert page.run(f"(() => {{ {bottom} return {lowest} <= {clip}; }})()")
    assert "-" not in ticks(page, "heads").replace(QUOTED, "")


def test_the_dark_page_is_dark(open_page):
    colours = [open_page(dark=dark).run("getComputedStyle(document.body).backgroundColor") for dark in (False, True)]
    shades = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert shades[0] > 700 > 100 > shades[1]


@pytest.mark.slow
def test_the_live_page_moves_while_a_run_goes_on(open_page, tmp_path, vectors):
    data, run = tmp_path / "table.npz", tmp_path / "run"
    numpy.savez(data, x=vectors.objects.numpy(), y=numpy.array(vectors.class_names)[vectors.labels])
    command = [sys.executable, "-m", "agrlearn"]
    options = ["--epochs", "500", "--batch-size", "8", "--run-dir", str(run), "--no-report"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen([*command, "train", str(data), *options], env=environment, **quiet)]
    try:
        wait_for((run / "run.json").exists, "the run to begin")
        watching = subprocess.Popen(
            [*command, "watch", str(run)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(watching)
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", watching.stdout.readline())
        page = open_page(url)

        def text(selector: str) -> str:
            """What stands there; nothing while the page loads itself again."""
            return page.run(f"document.querySelector('{selector}')?.textContent ?? ''")

        def epoch() -> int:
            found = re.search(r"epoch (\d+) of 500", text("#status"))
            return int(found[1]) if found else 0

        first = wait_for(epoch, "the first epoch")
        wait_for(lambda: page.count("#chart-loss .curve"), "a curve")
        assert page.count("#hardest") == 0
        wait_for(lambda: epoch() > first, "the page to move")
        wait_for(lambda: "no longer changes" in text("body"), "the end of the run")
        wait_for(lambda: page.count("#hardest") == 1, "the whole report")
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=30)
        assert watching.returncode == 0
        assert "No longer watching" in out
        assert err == ""
    finally:
        for process in started:
            process.kill()
            process.wait()
