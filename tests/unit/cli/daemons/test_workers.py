# SPDX-License-Identifier: Apache-2.0
"""The end of a worker process: it finishes the work that it has begun, and a start that lasts is abandoned."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tonnage.capacity import errors
from tonnage.cli.daemons import workers


class Waiting(workers.Worker):
    """A worker that starts when ``ready`` is set, and then works until :meth:`end` is called and ``done`` is set."""

    prog = "tonnage-test"

    def __init__(self) -> None:
        super().__init__(0)
        self.ready, self.done, self.ending = threading.Event(), threading.Event(), threading.Event()
        self.calls: list[str] = []

    def serve(self) -> None:
        self.ready.wait(20)
        self.started = True
        self.calls.append("started")
        self.ending.wait(20)
        self.done.wait(20)
        self.calls.append("served")

    def end(self) -> None:
        self.ending.set()

    def abandon_start(self) -> None:
        self.calls.append("abandoned")


class Failing(Waiting):
    """A worker whose work raises ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def serve(self) -> None:
        raise self._error


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Give the process of the tests its Ctrl-C back, which workers ignore."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_worker_leaves_ctrl_c_to_the_main_process() -> None:
    Waiting()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_the_end_waits_for_accepted_work() -> None:
    worker = Waiting()
    worker.ready.set()
    serving, ending = threading.Thread(target=worker.run), threading.Thread(target=worker.terminate)
    serving.start()
    while not worker.calls:
        time.sleep(0.001)
    ending.start()
    assert worker.ending.wait(20)
    assert ending.is_alive()
    worker.done.set()
    ending.join(20)
    serving.join(20)
    assert worker.calls == ["started", "served"]


def test_the_end_does_not_wait_for_a_start() -> None:
    worker = Waiting()
    serving = threading.Thread(target=worker.run)
    serving.start()
    worker.terminate()
    assert worker.calls == ["abandoned"]
    worker.done.set()
    worker.ready.set()
    serving.join(20)


def test_an_error_that_an_operator_has_to_solve_ends_the_daemon(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Failing(errors.ConfigurationError("[a] volume_driver = x: no such driver"))
    with pytest.raises(SystemExit) as ended:
        worker.run()
    assert ended.value.code == workers.FATAL_STATUS
    assert "[a] volume_driver = x: no such driver" in capsys.readouterr().err + caplog.text


def test_another_error_lets_the_worker_be_started_again() -> None:
    with pytest.raises(ZeroDivisionError):
        Failing(ZeroDivisionError()).run()


def test_a_plan_takes_any_files_over_unless_it_says_otherwise() -> None:
    plan = workers.WorkerPlan([workers.WorkerSpec("a", Waiting, ())])
    assert plan.reload()
    assert [spec.name for spec in plan.specs] == ["a"]
