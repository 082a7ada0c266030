# SPDX-License-Identifier: Apache-2.0
"""The torture bench: a short run on each database server, and heavy runs of all; see the chapter "Torture"."""

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests import servers, suites

TORTURE = pathlib.Path(__file__).parents[2] / "bench" / "torture.py"
DATABASES = ("sqlite", "postgresql", "mariadb")
SERVERS = {"postgresql": servers.PostgreSQL, "mariadb": servers.MariaDB}
#: The figures of the bench that must be zero.
ZEROS = (
    "over_commit_gb",
    "lost",
    "duplicates",
    "drift_gb",
    "leaked_claims",
    "wrong_refusals",
    "broken_invariants",
)


def torture(database: str, patience: float, keep: bool = False, **arguments: int) -> dict[str, Any]:
    """Run the bench, assert that no figure is wrong, and return the figures.

    With ``keep`` a failed run leaves its logs and configuration, and the failure names their folder. A run that exceeds
    ``patience`` seconds does not.
    """
    for server in (servers.RabbitMQ, SERVERS.get(database)):
        if server is not None and not server.installed():
            suites.cannot_run(server.name, f"no {server.name} on this machine; install the package {server.packages}")
    words = [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run(
        [sys.executable, TORTURE, "--json", "--database", database, *words, *(["--keep"] if keep else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=patience,
    )
    assert done.stdout, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    wrong = {name: figures[name] for name in ZEROS if figures[name]}
    assert not wrong, f"{wrong}\n{figures}\n{done.stderr}"
    assert done.returncode == 0, done.stderr
    assert figures["looks"] > 0, done.stderr
    if keep:
        shutil.rmtree(done.stderr.partition("kept: ")[2].splitlines()[0])
    return figures


@pytest.mark.heavy
@pytest.mark.timeout(960)
@pytest.mark.parametrize("database", ["mariadb", "postgresql", "sqlite"])
def test_faults_break_no_invariant(database: str) -> None:
    figures = torture(
        database,
        900,
        schedulers=2,
        agents=3,
        pools=9,
        requests=300,
        threads=16,
        faults=11,
        seed=DATABASES.index(database),
    )
    assert figures["requests"] == 300
    assert figures["refused"] > 0
    assert set(figures["faults"].values()) == {1}


@pytest.mark.timeout(960)
@pytest.mark.parametrize(
    "database", [pytest.param(name, marks=pytest.mark.heavy) for name in ("postgresql", "mariadb", "sqlite")]
)
def test_several_schedulers_fill_a_pool_exactly(database: str) -> None:
    figures = torture(database, 900, one_pool=40, schedulers=3)
    assert (figures["placed"], figures["refused"]) == (40, 20)


@pytest.mark.heavy
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_many_faults_break_no_invariant(database: str) -> None:
    figures = torture(database, 3500, keep=True, schedulers=4, agents=6, pools=200, requests=20000, faults=100, seed=1)
    assert min(figures["faults"].values()) >= 5


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", DATABASES)
def test_eight_schedulers_fill_a_large_pool_exactly(database: str) -> None:
    figures = torture(database, 880, one_pool=1000, schedulers=8)
    assert (figures["requests"], figures["placed"], figures["refused"]) == (1500, 1000, 500)
