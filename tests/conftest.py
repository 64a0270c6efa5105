"""Small data and networks that many tests share."""

import os
import signal
import socket
from collections import Counter
from pathlib import Path

import pytest
import torch

from agrlearn.data.labelled import LabelledSet
from agrlearn.networks.catalogue import build_network

NEVER_SKIPPED = (
    "tests/reporting/test_browser.py",
    "tests/networks",
    "tests/training",
    "tests/faults/test_strangers_runs.py",
)
"""Tests that must run wherever the environment variable CI is set: skipped, they would prove nothing."""


def pytest_terminal_summary(terminalreporter) -> None:
    """Say in one line what was skipped and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        told = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"SKIPPED {len(skipped)} TESTS: {told}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter and os.environ.get("CI") else []
    lost = [report.nodeid for report in skipped if report.nodeid.startswith(NEVER_SKIPPED)]
    if lost:
        reporter.write_line(f"These must not be skipped: {', '.join(lost)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    # A shell starts what it puts in the background with SIGINT ignored, and every process inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_test_depends_on_the_one_before() -> None:
    torch.manual_seed(0)


_PUBLISHED = os.environ.get("AGRLEARN_DATA")
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1", "", None)


@pytest.fixture(autouse=True)
def _no_test_uses_the_network_or_the_users_data(monkeypatch, tmp_path_factory):
    look_up = socket.getaddrinfo

    def look_up_local_hosts(host, *arguments, **options):
        if host not in _LOCAL_HOSTS:
            raise socket.gaierror(f"tests do not use the network, and this one asked for {host}")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_local_hosts)
    monkeypatch.setenv("NO_PROXY", "*")  # a proxy could be a local host
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("AGRLEARN_DATA", str(tmp_path_factory.getbasetemp() / "no-data"))


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The project's own files; tests about them are skipped where only the package is installed."""
    from tests.pages import ROOT

    return ROOT


@pytest.fixture
def published_data() -> Path:
    """The folder of published data sets that whoever runs the tests has; tests that need it are left out elsewhere."""
    if _PUBLISHED is None:
        pytest.skip("the published files are not here: set AGRLEARN_DATA")
    return Path(_PUBLISHED)


@pytest.fixture
def vectors() -> LabelledSet:
    """150 vectors of 3 classes that are easy but not trivial to tell apart."""
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(150) % 3
    centres = 2.0 * torch.randn(3, 6, generator=random)
    return LabelledSet(centres[labels] + torch.randn(150, 6, generator=random), labels, ("a", "b", "c"))


@pytest.fixture
def images() -> LabelledSet:
    """96 grey images of 8×8 bytes, 4 classes, each class with its own bright quarter."""
    random = torch.Generator().manual_seed(2)
    labels = torch.arange(96) % 4
    pixels = torch.randint(0, 128, (96, 1, 8, 8), generator=random)
    for index, label in enumerate(labels.tolist()):
        row, column = 4 * (label // 2), 4 * (label % 2)
        pixels[index, :, row : row + 4, column : column + 4] += 100
    return LabelledSet(pixels.to(torch.uint8), labels, ("nw", "ne", "sw", "se"))


@pytest.fixture
def make_mlp(vectors):
    """Builds a small network for `vectors`."""

    def make(fold: int, **options):
        return build_network(
            "mlp",
            object_shape=(6,),
            num_classes=3,
            fold=fold,
            objects=vectors.objects,
            **{"width": 16, "join": "features", **options},
        )

    return make
