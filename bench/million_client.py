# SPDX-License-Identifier: Apache-2.0
"""The client of ``million.py``: it requests volumes of a type, one after another, as the REST API does.

Between its requests it rests for ``--pause`` seconds. Each volume type is a command too, and so is ``large``: one
request, whose answer is the pool or the reason of the refusal, its seconds, and its time on the monotonic clock.
"""

import argparse
import functools
import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import load
import million_driver
from oslo_config import cfg

from tonnage.api import options as api_options
from tonnage.cli import setup
from tonnage.rpc import contract, options, transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import CreateVolume, PoolQuery


class Requests(load.Load):
    """A load of requests that can be started again after a stop."""

    def __init__(self, scheduler: SchedulerClient, pause: float) -> None:
        super().__init__(1)
        self._scheduler, self._pause = scheduler, pause
        self._refused = 0

    def start(self) -> None:
        self._stopping.clear()
        self._seconds = []
        self._threads = [threading.Thread(target=self._ask, daemon=True)]
        super().start()

    def create(self, size_gb: int, volume_type: str | None) -> dict[str, Any]:
        """Request a volume, and return its pool or the reason of the refusal."""
        id = str(uuid.uuid4())
        request = CreateVolume(
            request_id=f"req-{id}",
            volume_id=id,
            size_gb=size_gb,
            project_id="bench",
            user_id="bench",
            volume_type=volume_type,
        )
        began = time.perf_counter()
        answer = self._scheduler.call(contract.CREATE_VOLUME, request)
        seconds = time.perf_counter() - began
        reason = None if answer.refusal is None else answer.refusal.message
        return {"pool": answer.pool, "refusal": reason, "seconds": seconds, "at": time.monotonic()}

    def _others(self) -> dict[str, Any]:
        """Return the number of refused requests."""
        return {"refused": self._refused}

    def _ask(self) -> None:
        while not self._stopping.is_set():
            answer = self.create(1, "gold")
            with self._lock:
                self._seconds.append(answer["seconds"])
                self._refused += answer["pool"] is None
            self._stopping.wait(self._pause)


def main() -> None:
    """Execute the benchmark's commands from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--pause", type=float, default=0.01)
    arguments = parser.parse_args()
    conf = cfg.CONF  # noqa: TID251  (oslo.messaging has groups that are registered there only)
    setup.configure(
        conf, ["--config-file", arguments.config_file], "bench-client", [options.register, api_options.register]
    )
    bus = transport.create(conf)
    scheduler = SchedulerClient(bus)
    scheduler.call(contract.GET_POOLS, PoolQuery(name="none"))
    requests = Requests(scheduler, arguments.pause)

    def command(size_gb: int, volume_type: str | None) -> str:
        return json.dumps(requests.create(size_gb, volume_type))

    commands: dict[str, Callable[[], str]] = {
        "large": functools.partial(command, million_driver.LARGE_GB, None),
        **{name: functools.partial(command, 1, name) for name in million_driver.TYPES},
    }
    load.talk(requests, commands)
    bus.cleanup()


if __name__ == "__main__":
    main()
