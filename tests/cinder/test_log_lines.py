# SPDX-License-Identifier: Apache-2.0
"""Each line that a scheduler logs for a request has the id of that request, on threads and on eventlet."""

import re
import signal
from concurrent import futures

import pytest

from tests.cinder import sites
from tests.cinder.test_switching import TWO_LINES
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

REQUESTS = 12

#: The id of the request in the prefix of the line, and the one that the message names.
_REFUSAL = re.compile(r"\[(?:\S+ )?(req-[0-9a-f-]{36}) [^]]*\].*Request (req-[0-9a-f-]{36}) of \S+ is refused: No pool")


@pytest.mark.parametrize("program", ["tonnage-cinder-scheduler", "cinder-scheduler"])
def test_refusals_have_the_ids_of_their_requests(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, program: str
) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as site:
        cinder, log = site.cinder, site.cinder.folder / "scheduler0.log"
        if program == "cinder-scheduler":
            cinder.end_service("scheduler0", signal.SIGTERM)
            log.write_text("")
            (cinder.folder / "two-lines.conf").write_text(TWO_LINES)
            cinder.start_service("scheduler0", program, patched=True, more="two-lines.conf")
        with futures.ThreadPoolExecutor(4) as clients:
            volume_ids = list(clients.map(cinder.create, [101] * REQUESTS))
        assert {volume["status"] for volume in cinder.settled(volume_ids).values()} == {"error"}

        def refusals() -> list[tuple[str, str]]:
            return _REFUSAL.findall(log.read_text(errors="replace"))

        wait_for(lambda: len(refusals()) == REQUESTS, "all refusals are in the log")
        assert len({named for _, named in refusals()}) == REQUESTS
        assert [prefix for prefix, _ in refusals()] == [named for _, named in refusals()]
