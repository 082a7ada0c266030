# SPDX-License-Identifier: Apache-2.0
"""Native filters and weighers decide as Cinder's classes do."""

import pathlib
import re
import subprocess

import pytest

from tests.cinder import sites
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.cinder import HOME
from tonnage.extensions.cinder.scheduler import ledger_options

_PROGRAM = pathlib.Path(__file__).with_name("random_decisions.py")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_decisions_are_those_of_cinders_classes(seed: int) -> None:
    sites.require_cinder()
    done = subprocess.run(
        [HOME / "bin" / "python", _PROGRAM, str(seed), "1000"], capture_output=True, text=True, check=False
    )
    found = re.search(r"^DECIDED (\d+) \d+$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout + done.stderr[-2000:]
    assert int(found[1]) > 3000


def test_a_scheduler_with_native_plugins(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100)
    filters, weighers = ",".join(ledger_options.NATIVE_FILTERS), ",".join(ledger_options.NATIVE_WEIGHERS)
    with sites.with_ledger(
        mariadb_server, rabbitmq_server, shape, native_filters=filters, native_weighers=weighers
    ) as site:
        volumes = [site.cinder.create(30) for _ in range(4)]
        found = site.cinder.settled(volumes)
        assert sorted(each["status"] for each in found.values()) == ["available"] * 3 + ["error"]
        [refused] = [each for each in volumes if found[each]["status"] == "error"]
        [refusal] = site.why(refused)["refusals"]
        assert "CapacityFilter refused 1" in refusal["message"]
        assert "has headroom 10.00 GiB" in refusal["message"]
