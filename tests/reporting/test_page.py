"""The page as text: whole, small, and safe from what the user's data are called."""

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from scipy.stats import binomtest

from agrlearn.reporting.charts import Chart, Series
from agrlearn.reporting.collect import report_of_runs
from agrlearn.reporting.page import render
from agrlearn.runs.facts import settings_of
from tests.reporting.conftest import HOSTILE, QUOTED

SECTIONS = ("dial", "overview", "curves", "reliability", "heads", "confusion", "hardest", "again")


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._inside = [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def page(report) -> str:
    return render(report)


def sections(page: str) -> list[str]:
    return [attributes["id"] for tag, attributes in Elements(page).tags if tag == "section"]


def test_every_section_is_there_and_the_picture_of_error_over_cost_is_the_first(page):
    assert tuple(sections(page)) == SECTIONS
    tables_and_charts = [given.get("id") for tag, given in Elements(page).tags if tag == "table" or tag == "figure"]
    assert tables_and_charts[0] == "chart-dial-error"


def headline_of(page: str) -> str:
    found = re.search(r'<div class="headline">(.*?)</div>', page, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", "", found[1]).split()) if found else ""


def test_the_error_of_the_best_setting_stands_on_top_with_its_objects_its_interval_and_its_cost(page, report, trained):
    best = min(report.comparison, key=lambda row: row.scores["error"].value)
    error, found = best.scores["error"], report.measured[best.setting]
    width = error.half_width()
    low, high = max(0.0, error.value - width), min(1.0, error.value + width)
    text = headline_of(page)
    assert text.startswith(f"{100 * error.value:.2f} % error {100 * (1 - error.value):.2f} % accuracy ")
    assert "errs least of 2 settings, on 32 objects, by Replicated prediction." in text
    assert f"of the error, over 2 seeds: {100 * low:.2f} to {100 * high:.2f} %." in text
    assert f"{found.parameters:,} parameters, {found.multiply_adds:,.0f} multiply-adds for one object" in text
    assert page.index('class="headline"') < page.index("<nav")


def test_the_interval_of_one_run_is_over_its_objects(report, trained):
    facts, _ = trained
    found = report.measured[0]
    scores = (dataclasses.replace(found.scores[0], error=10 / 32),)
    one = dataclasses.replace(found, scores=scores, confusion=((10, 4, 0), (6, 10, 0), (0, 0, 2)))
    text = headline_of(render(report_of_runs("one run", settings_of(facts[:1]), {0: one})))
    low, high = binomtest(10, 32).proportion_ci(method="wilson")
    assert "% accuracy On 32 objects, by Replicated prediction. 95 % interval of the error" in text
    assert f", over the 32 objects: {100 * low:.2f} to {100 * high:.2f} %." in text
    assert "flatters" not in text


def test_settings_of_other_objects_have_no_common_headline(report, trained):
    facts, _ = trained
    other = {0: report.measured[0], 1: dataclasses.replace(report.measured[1], origin="5 objects")}
    assert headline_of(render(report_of_runs("", settings_of(facts), other))) == ""


def test_what_is_not_known_is_left_out(trained):
    facts, _ = trained
    page = render(report_of_runs("curves only", settings_of(facts), notes=["nothing was measured"]))
    assert sections(page) == ["overview", "curves", "again"]
    assert headline_of(page) == ""
    assert "nothing was measured" in page


def assert_every_row_fits_its_headings(page: str) -> None:
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        head, *rows = (len(re.findall(r"<t[hd][ >]", row)) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL))
        assert rows
        assert set(rows) == {head}


def test_every_row_of_a_table_has_a_cell_for_each_heading(page, trained):
    facts, _ = trained
    assert_every_row_fits_its_headings(page)
    halted = [dataclasses.replace(facts[0], finished=False, epochs=facts[0].epochs[:2])]
    assert_every_row_fits_its_headings(render(report_of_runs("one run under way", settings_of(halted))))


def test_names_from_the_data_are_shown_and_not_run(page):
    elements = Elements(page)
    scripts = [attributes for tag, attributes in elements.tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "report-data"}, {}]
    assert HOSTILE in elements.text
    assert QUOTED in elements.text
    assert 'fold1 "x" <img src=q>' in elements.text
    assert all(attributes.get("src", "data:").startswith("data:") for _, attributes in elements.tags)
    assert not [name for _, attributes in elements.tags for name in attributes if name.startswith("on")]
    assert "alert(1)" not in re.sub(r"&lt;script&gt;alert\(1\)&lt;/script&gt;", "", page)


def test_the_data_of_the_script_are_json_without_markup(page, report):
    (text,) = re.findall(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.DOTALL)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text)["settings"] == list(report.settings)


def test_the_policy_lets_run_the_pages_own_script_alone(page):
    policy = next(attributes["content"] for tag, attributes in Elements(page).tags if "http-equiv" in attributes)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'none'" in policy
    for kind, text in re.findall(r"<(style|script)>(.*?)</\1>", page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_the_page_asks_nothing_of_the_network(page):
    links = [attributes["href"] for tag, attributes in Elements(page).tags if "href" in attributes]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "http://www.w3.org/2000/svg" in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_report_of_a_hundred_settings_can_be_mailed(report):
    line = Series("s", 0, (tuple(range(160)), tuple(range(160))), tuple(i / 7 for i in range(160)),
                  tuple(i / 9 for i in range(160)), tuple(i / 3 for i in range(160)))  # fmt: skip
    many = [dataclasses.replace(line, setting=number) for number in range(100)]
    chart = Chart("loss", "Loss", "about", ("objects seen", "epochs"), "nats", tuple(many))
    large = dataclasses.replace(report, training=(chart,) * 3, settings=tuple(f"setting {n}" for n in range(100)))
    assert len(render(large).encode()) < 2_000_000


def test_many_classes_are_shown_by_what_is_confused_most(report):
    names = tuple(f"class {number}" for number in range(30))
    confusion = [[9 if row == column else 0 for column in range(30)] for row in range(30)]
    confusion[3][7] = 5
    found = dataclasses.replace(report.measured[0], class_names=names, confusion=tuple(map(tuple, confusion)))
    text = Elements(render(dataclasses.replace(report, measured={0: found}))).text
    assert re.search(r"class 3\s*class 7\s*5", text)
    assert "true ↓ answer →" not in text
