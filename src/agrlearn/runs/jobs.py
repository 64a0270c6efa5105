"""Many jobs at once: on processes of this machine, or on Ray.

A job is anything that can be sent to another process. What fails is reported, and the others go on; a process that dies
takes only its own job with it, which is tried again `retries` times.
"""

import math
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from agrlearn.errors import AgrLearnError, RecipeError


@dataclass(frozen=True)
class Resources:
    """Where jobs run, and with how much."""

    engine: str = "processes"
    """processes, or ray."""
    workers: int = 1
    """Jobs at the same time; on a Ray cluster, the cluster decides."""
    address: str | None = None
    """Of a Ray cluster; without it Ray runs on this machine."""
    cpus: float = 1
    """For each job: threads, and on Ray what it reserves."""
    gpus: float = 0
    """For each job, on Ray."""
    retries: int = 0
    """How often a job is tried again whose process died."""
    device: str = "auto"
    """What each run is trained on: see `agrlearn.devices`."""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.cpus <= 0 or self.gpus < 0 or self.retries < 0:
            raise RecipeError("workers and cpus are at least 1, gpus and retries at least 0")


class JobDiedError(AgrLearnError):
    """The process that ran a job ended without an answer."""


Outcome = Any
"""What the function returned, or the exception it raised."""


def run_jobs(
    jobs: Sequence[Any],
    function: Callable[[Any], Any],
    resources: Resources,
    *,
    on_start: Callable[[Any], None] = lambda job: None,
    on_done: Callable[[Any, Outcome], None],
) -> None:
    """Call `function` on every job, and tell each outcome once no further try is left.

    Args:
        function: at the top level of a module, so that other processes find it.
    """
    if resources.engine == "ray" or resources.address is not None:
        start, finished, stop = _ray(function, resources)
    elif resources.engine == "processes":
        start, finished, stop = _processes(function, resources)
    else:
        raise RecipeError(f"there is no engine {resources.engine!r}; choose processes or ray")
    at_once = len(jobs) if resources.address is not None else resources.workers
    waiting = deque((job, resources.retries) for job in jobs)
    running: dict[Any, tuple[Any, int]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job, tries = waiting.popleft()
                running[start(job)] = (job, tries)
                on_start(job)
            for handle, outcome in finished(list(running)):
                job, tries = running.pop(handle)
                if isinstance(outcome, JobDiedError) and tries > 0:  # another try of all else would end the same way
                    waiting.append((job, tries - 1))
                else:
                    on_done(job, outcome)
    finally:
        stop()


def use_threads(count: int) -> None:
    """What a process does before its first job, so that several do not fight for the cores."""
    torch.set_num_threads(count)
    # Adam's averages of words that no batch holds fade into denormal numbers, with which processors are slow.
    torch.set_flush_denormal(True)


@contextmanager
def one_thread() -> Iterator[None]:
    """For small networks: a second thread gains them little, and on busy cores the two wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(eq=False)
class _Worker:
    process: multiprocessing.process.BaseProcess
    line: Connection


def _processes(function: Callable[[Any], Any], resources: Resources) -> tuple[Callable, Callable, Callable]:
    """Processes that take one job after the other; one that dies is replaced."""
    context = multiprocessing.get_context("spawn")
    idle: list[_Worker] = []
    every: list[_Worker] = []

    def start(job: Any) -> _Worker:
        if not idle:
            mine, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, function, max(1, round(resources.cpus))), daemon=True
            )  # fmt: skip
            process.start()
            theirs.close()
            idle.append(_Worker(process, mine))
            every.append(idle[0])
        worker = idle.pop()
        worker.line.send(job)
        return worker

    def finished(workers: list[_Worker]) -> list[tuple[_Worker, Outcome]]:
        ready = wait([worker.line for worker in workers])
        return [(worker, outcome_of(worker)) for worker in workers if worker.line in ready]

    def outcome_of(worker: _Worker) -> Outcome:
        try:
            outcome = worker.line.recv()
            idle.append(worker)
            return outcome
        except (EOFError, OSError):
            worker.process.join()
            code = worker.process.exitcode
            return JobDiedError(f"its process ended with exit code {code}, perhaps for want of memory")

    def stop() -> None:
        for worker in every:
            worker.process.terminate()

    return start, finished, stop


def _serve(line: Connection, function: Callable[[Any], Any], threads: int) -> None:
    """Answer jobs until the driver hangs up; if the driver dies, so does this process, and lets go of its run."""
    threading.Thread(target=_die_with_the_driver, daemon=True).start()
    use_threads(threads)
    while True:
        try:
            job = line.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            outcome = function(job)
        except KeyboardInterrupt:
            return
        except Exception as error:
            outcome = error
        try:
            line.send(outcome)
        except Exception:  # an exception that cannot be sent is sent as its text
            line.send(AgrLearnError(f"{type(outcome).__name__}: {outcome}"))


def _die_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
    os._exit(1)


def _ray(function: Callable[[Any], Any], resources: Resources) -> tuple[Callable, Callable, Callable]:
    try:
        import ray
    except ImportError:
        raise RecipeError("the engine ray needs Ray: pip install 'agrlearn[ray]'") from None
    mine = not ray.is_initialized()
    if mine:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "address": resources.address}
        if resources.address is None:
            options |= {"num_cpus": math.ceil(resources.workers * resources.cpus), "include_dashboard": False}
        ray.init(**options)
    remote = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=0)(_in_ray)

    def start(job: Any) -> Any:
        return remote.remote(function, job, max(1, round(resources.cpus)))

    def finished(references: list[Any]) -> list[tuple[Any, Outcome]]:
        ready, _ = ray.wait(references)
        return [(reference, outcome_of(reference)) for reference in ready]

    def outcome_of(reference: Any) -> Outcome:
        try:
            return ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return error.cause if isinstance(error.cause, Exception) else error
        except ray.exceptions.RayError as error:
            return JobDiedError(f"its process was lost ({type(error).__name__})")

    def stop() -> None:
        if mine:
            ray.shutdown()

    return start, finished, stop


def _in_ray(function: Callable[[Any], Any], job: Any, threads: int) -> Any:
    use_threads(threads)
    return function(job)
