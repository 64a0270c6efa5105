"""agrlearn watch"""

from pathlib import Path

from agrlearn.cli.options import WholeNumber


def watch(run: Path, /, *, port: WholeNumber = 0, network: str | None = None) -> None:
    """Follow RUN while it trains: a page on this machine (127.0.0.1) that updates itself.

    When the run is finished the page shows all that agrlearn report does. Ctrl-C ends the watching, not the run.

    Parameters
    ----------
    run
        The directory of a run, under way or finished.
    port
        Of the page; by default one that is free.
    network
        For a run whose network comes from a Python file: that file and function, which are run.
    """
    from agrlearn.errors import RecipeError
    from agrlearn.reporting.live import LiveRun, LiveServer
    from agrlearn.reporting.make import Reporter
    from agrlearn.runs.facts import read_facts

    if not 0 <= port < 65536:
        raise RecipeError(f"a port is a number from 0 to 65535, got {port}")
    read_facts(run)
    reporter = Reporter(network=network)
    live = LiveRun(run, lambda facts: reporter.report([facts], run.resolve().name))
    try:
        server = LiveServer(live, port)
    except OSError as error:
        raise RecipeError(f"port {port} cannot be used ({error.strerror}); leave it out for one that is free") from None
    print(f"{run} is shown at http://127.0.0.1:{server.address[1]}/ (Ctrl-C ends the watching)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nNo longer watching; the run goes its own way.")
