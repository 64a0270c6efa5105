"""The server of `agrlearn watch`: this machine, this run, two addresses."""

import contextlib
import html
import http.client
import json
import shutil
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agrlearn.reporting import live
from agrlearn.reporting.live import LiveRun, LiveServer
from tests.reporting.browser import wait_for


@pytest.fixture
def run(trained, tmp_path):
    """A run that is under way: it has records, and no network yet."""
    facts, _ = trained
    folder = tmp_path / "run"
    shutil.copytree(facts[2].folder, folder)
    (folder / "network.safetensors").rename(tmp_path / "network")
    return folder


@pytest.fixture
def ask(run, report):
    """Asks the server of the run for a path."""
    server = LiveServer(LiveRun(run, lambda facts: report))
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(path="/", method="GET", **headers):
        connection = http.client.HTTPConnection(*server.address, timeout=30)
        connection.request(method, path, headers={"Host": f"127.0.0.1:{server.address[1]}", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    ask.address = server.address
    yield ask
    server.close()


def test_it_listens_on_this_machine_alone(ask):
    assert ask.address[0] == "127.0.0.1"


def test_a_run_under_way_shows_its_curves_and_how_far_it_is(ask):
    status, page = ask()
    assert status == 200
    assert 'id="chart-loss"' in page
    assert 'id="hardest"' not in page
    assert 'id="overview"' not in page  # a table would stand still
    assert "connect-src 'self'" in html.unescape(page)
    status, text = ask("/data.json")
    news = json.loads(text)
    assert (status, news["done"]) == (200, False)
    assert "epoch 4 of 4, about 0 s left, last update" in news["status"]


@pytest.mark.parametrize(
    ("seconds", "patience", "told"),
    [
        (4, None, "epoch 4 of 104, about 100 s left"),
        (40, None, "epoch 4 of 104, about 17 minutes left"),
        (4000, 3, "epoch 4 of 104, at most 27.8 hours left"),
    ],
)
def test_the_time_left_follows_from_the_epochs_so_far(ask, run, seconds, patience, told):
    (run / "timing.jsonl").write_text("".join(f'{{"epoch": {n}, "seconds": {seconds / 4}}}\n' for n in range(1, 5)))
    about = json.loads((run / "run.json").read_text())
    about["identity"]["recipe"] |= {"epochs": 104, "patience": patience}
    (run / "run.json").write_text(json.dumps(about))
    assert f"Under way: {told}, last update" in json.loads(ask("/data.json")[1])["status"]
    (run / "metrics.jsonl").unlink()
    assert "epoch 0 of 104, last update" in json.loads(ask("/data.json")[1])["status"]


def test_a_finished_run_becomes_the_whole_report(ask, run):
    (run.parent / "network").rename(run / "network.safetensors")
    wait_for(lambda: json.loads(ask("/data.json")[1])["done"], "the measurements")
    assert "no longer changes" in json.loads(ask("/data.json")[1])["status"]
    assert 'id="hardest"' in ask()[1]


def test_a_run_that_is_started_over_is_under_way_again(ask, run):
    (run.parent / "network").rename(run / "network.safetensors")
    wait_for(lambda: json.loads(ask("/data.json")[1])["done"], "the measurements")
    (run / "network.safetensors").rename(run.parent / "network")
    news = json.loads(ask("/data.json")[1])
    assert not news["done"]
    assert "Under way" in news["status"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_other_names_for_this_machine_are_refused(ask, host):
    assert ask(Host=host)[0] == 403


@pytest.mark.parametrize(
    "path", ["/run.json", "/../run.json", "/metrics.jsonl", "//etc/passwd", "/data.json?x", "/%2e%2e/"]
)
def test_nothing_but_the_page_and_its_data_is_served(ask, path):
    assert ask(path)[0] == 404


def test_other_methods_are_refused(ask):
    assert ask(method="POST")[0] == 501
    assert ask(method="HEAD") == (200, "")


def test_a_run_that_is_gone_is_reported_and_does_not_end_the_server(ask, run):
    (run / "run.json").unlink()
    status, text = ask()
    assert status == 503
    assert "not a run directory" in text
    assert ask("/nothing")[0] == 404


def test_a_browser_that_goes_away_leaves_no_message(ask, capfd):
    for _ in range(20):
        with socket.create_connection(ask.address) as line:
            line.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{ask.address[1]}\r\n\r\n".encode())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # hang up at once
    assert ask()[0] == 200
    assert capfd.readouterr().err == ""


def test_a_hundred_are_answered_beside_hundreds_that_say_nothing(ask):
    silent = [socket.create_connection(ask.address) for _ in range(400)]
    threads = threading.active_count()
    with ThreadPoolExecutor(20) as pool:
        assert all(status == 200 for status, _ in pool.map(ask, ["/data.json"] * 100))
    assert threading.active_count() - threads < 80
    for line in silent:
        line.close()


def test_whoever_says_nothing_is_hung_up_on(ask, monkeypatch):
    monkeypatch.setattr(live, "_PATIENCE", 0.2)
    with socket.create_connection(ask.address, timeout=20) as line:
        line.sendall(b"GET / HTT")
        assert line.recv(10) == b""
    assert ask()[0] == 200


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"\xff\xfe \0\r\n\r\n", b"x" * 100_000])
def test_nonsense_is_refused_or_hung_up_on(ask, request_):
    with socket.create_connection(ask.address, timeout=20) as line, contextlib.suppress(ConnectionError):
        line.sendall(request_)
        assert line.recv(100).startswith((b"HTTP/1.1 403", b""))
    assert ask()[0] == 200
