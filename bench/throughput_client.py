# SPDX-License-Identifier: Apache-2.0
"""The client of the throughput benchmark: it requests volumes of 1 GiB, several at a time.

It is ready when it has reached a scheduler. The command ``one`` requests a single volume. Its answer is the pool, or
None for a refusal, and the time of the answer on the monotonic clock.
"""

import argparse
import json
import logging
import time
import uuid
from typing import Any

import load
from oslo_config import cfg

from tonnage.api import options as api_options
from tonnage.cli import setup
from tonnage.ledger.db import database
from tonnage.ledger.db import options as database_options
from tonnage.rpc import contract, options, transport
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import CreateVolume, PoolQuery

#: The client sends requests in the same way as the REST API, and so needs its options.
_OPTIONS = [options.register, api_options.register, database_options.register]

LOG = logging.getLogger(__name__)


class Requests(load.Load):
    """A load of RPC requests. Each thread requests a volume and waits for its placement."""

    def __init__(self, scheduler: SchedulerClient, in_flight: int) -> None:
        super().__init__(in_flight)
        self._scheduler = scheduler
        self._refused = self._failed = 0

    def _others(self) -> dict[str, Any]:
        """Return the numbers of refused and failed requests."""
        return {"refused": self._refused, "failed": self._failed}

    def _ask(self) -> None:
        while not self._stopping.is_set():
            request = new_volume()
            began = time.perf_counter()
            try:
                answer = self._scheduler.call(contract.CREATE_VOLUME, request)
            except Exception:
                LOG.exception("A request failed")
                with self._lock:
                    self._failed += 1
                continue
            seconds = time.perf_counter() - began
            with self._lock:
                if answer.refusal is None:
                    self._seconds.append(seconds)
                else:
                    self._refused += 1


def new_volume() -> CreateVolume:
    """Return a request for a volume of 1 GiB."""
    volume_id = str(uuid.uuid4())
    return CreateVolume(
        request_id=f"req-{volume_id}", volume_id=volume_id, size_gb=1, project_id="bench", user_id="bench"
    )


def main() -> None:
    """Execute the benchmark's commands from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--in-flight", type=int, default=64)
    arguments = parser.parse_args()
    conf = cfg.CONF  # noqa: TID251  (oslo.messaging has groups that are registered there only)
    setup.configure(conf, ["--config-file", arguments.config_file], "bench-client", _OPTIONS)
    bus = transport.create(conf)
    ledger = database.connect(conf)
    scheduler = SchedulerClient(bus)
    scheduler.call(contract.GET_POOLS, PoolQuery(name="none"))

    def one() -> str:
        answer = scheduler.call(contract.CREATE_VOLUME, new_volume())
        return json.dumps({"pool": answer.pool, "at": time.monotonic()})

    load.talk(Requests(scheduler, arguments.in_flight), {"one": one})
    bus.cleanup()
    ledger.close()


if __name__ == "__main__":
    main()
