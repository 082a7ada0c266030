# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, and what an operator is told where that, or a backend, does not work."""

import pathlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Addresses, Deployment, Ended, until
from tests.unit.drivers.mounts import mounted

BACKENDS: dict[str, dict[str, Any]] = {
    "one": {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 2},
    "two": {"filesystem_size_limit_gb": 6, "max_over_subscription_ratio": 2},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    """One that reports at start and after changes only, so that nobody knows at once what happens to its folders."""
    with deploy(BACKENDS, backend_stats_polling_interval=60) as deployment:
        yield deployment.start()


@on_one_database
def test_a_volume_that_no_pool_can_make_is_in_error_and_says_why(tonnage: Deployment) -> None:
    rest = tonnage.rest
    for backend in BACKENDS:
        tonnage.path(backend).rename(tonnage.path(f"{backend}-away"))
    volume_id = rest.create(1)
    until(lambda: rest.volume(volume_id)["status"] == "error", "it is in error")
    reason = rest.volume(volume_id)["status_reason"]
    assert reason.count("create failed: No such file or directory in ") == 2
    for backend in BACKENDS:
        assert f"in pool {tonnage.pool(backend)}: " in reason
    told = [one for one in rest.get("messages", "3.3")["messages"] if one["resource_uuid"] == volume_id]
    assert [(one["event_id"], one["user_message"]) for one in told] == [("volume_create_failed", reason)]
    for backend in BACKENDS:
        tonnage.path(f"{backend}-away").rename(tonnage.path(backend))
    rest.made(rest.create(1))
    rest.delete(volume_id)
    tonnage.check_at_rest()


@on_one_database
def test_a_second_one_on_the_same_folder_is_refused(tonnage: Deployment) -> None:
    program = "agent" if tonnage.distributed else "standalone"
    conf = tonnage.variant(DEFAULT={"osapi_volume_listen_port": 0})
    line = one_line(tonnage.attempt(program, conf), program)
    assert f"backend {tonnage.host}@one is run by another process (process " in line
    tonnage.rest.made(tonnage.rest.create(1))


@on_one_database
def test_it_stops_cleanly_and_finds_everything_as_it_was(tonnage: Deployment) -> None:
    rest = tonnage.rest
    for number, whole_group in ((signal.SIGTERM, False), (signal.SIGINT, True)):
        # What has been accepted when the signal comes is finished, before or after.
        for _ in range(4):
            rest.create(1)
        volumes = {volume["id"] for volume in rest.volumes()}
        assert tonnage.stop(number, whole_group=whole_group) == dict.fromkeys(tonnage.processes, 0)
        assert "Traceback" not in tonnage.logs()
        tonnage.check_counters()
        tonnage.start()
        tonnage.check_at_rest()
        assert {volume["id"]: volume["status"] for volume in rest.volumes()} == dict.fromkeys(volumes, "available")


@pytest.mark.parametrize(
    "deploy", [pytest.param("postgresql", marks=pytest.mark.heavy), "mariadb"], indirect=True, scope="module"
)
def test_a_silent_backend_is_down_until_it_is_heard_again(deploy: Deploy) -> None:
    with deploy({"one": BACKENDS["one"]}, service_down_time=6) as tonnage:
        rest, pool = tonnage.start().rest, tonnage.pool("one")

        def states() -> dict[str, str]:
            return {one["binary"]: one["state"] for one in rest.get("os-services")["services"]}

        until(lambda: rest.pools()[pool]["backend_state"] == "up", "it is up")
        agent = tonnage.processes["agent"].family()
        for process in agent:
            process.suspend()
        # All else is well, but for what a machine that stands still may show of it for a moment.
        missed = 0

        def down() -> bool:
            nonlocal missed
            shown = states()
            missed += shown["tonnage-scheduler"] != "up" or not rest.healthy()
            return shown["tonnage-agent"] == "down"

        until(down, "os-services shows it as down")
        until(lambda: rest.pools()[pool]["backend_state"] == "down", "get_pools shows it as down")
        alone = {"tonnage-agent": "down", "tonnage-scheduler": "up"}
        until(lambda: states() == alone and rest.healthy(), "all else is well")
        assert missed <= 3
        assert rest.pools()[pool]["figures_age_seconds"] >= 6
        message = rest.refusal(1)["message"]
        assert f"nearest {pool} is down: no report for" in message
        assert "(service_down_time is 6)" in message
        for process in agent:
            process.resume()

        def up_again() -> bool:
            shown = rest.pools()[pool]
            return bool(shown["backend_state"] == "up" and shown["figures_age_seconds"] < 6)

        until(up_again, "it is up again")
        until(lambda: states() == dict.fromkeys(alone, "up"), "os-services shows it as up")
        # On a machine that stands still it may be silent again for as long.
        made = until(lambda: [answer for answer in [rest.ask(1)] if answer.status_code == 202], "it takes volumes")
        rest.made(made[0].json()["volume"]["id"])


@pytest.fixture(scope="module")
def stopped() -> Iterator[Deployment]:
    """A configuration that would work, to be spoiled."""
    with Deployment(Addresses(), BACKENDS) as deployment:
        yield deployment


def one_line(ended: Ended, program: str) -> str:
    """Return what it said: one line, and the exit code is that of a failure."""
    assert ended.code == 1, ended
    assert ended.error.startswith(f"tonnage-{program}: ")
    assert ended.error.endswith("\n")
    assert ended.error.count("\n") == 1, ended.error
    return ended.error


@pytest.mark.parametrize(
    ("programs", "changes", "said"),
    [
        (
            ["standalone"],
            {"DEFAULT": {"over_provisioning_calculation": "magic"}},
            ["over_provisioning_calculation = magic", "cinder", "standard"],
        ),
        (
            ["scheduler"],
            {"DEFAULT": {"max_over_subscription_ratio": "0.5"}},
            ["max_over_subscription_ratio", "'0.5'", "at least 1", "auto"],
        ),
        (
            ["standalone"],
            {"DEFAULT": {"backend_stats_polling_interval": "often"}},
            ["backend_stats_polling_interval = often", "a whole number"],
        ),
        (
            ["standalone"],
            {"one": {"volume_driver": "tape"}},
            ["[one] volume_driver = tape: there is no such driver; known are: csi, filesystem, lvm, memory"],
        ),
        (["standalone"], {"two": {"reserved_percentage": "101"}}, ["[two] reserved_percentage = 101", "from 0 to 100"]),
        (["standalone"], {"DEFAULT": {"state_path": "/dev/null"}}, ["/dev/null/locks", "state_path"]),
        (["api", "standalone"], {"database": {"connection": "sqlite:////dev/null/tonnage.sqlite"}}, ["/dev/null"]),
        (
            ["manage", "scheduler"],
            {"database": {"connection": "postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=5"}},
            ["database", "127.0.0.1"],
        ),
        (["scheduler", "api"], {"DEFAULT": {"transport_url": "pigeon://roof/"}}, ["transport_url", "pigeon"]),
        (
            ["api", "standalone"],
            {"DEFAULT": {"osapi_volume_listen": "0.0.0.0"}},  # noqa: S104
            ["auth_strategy = noauth", "0.0.0.0"],  # noqa: S104
        ),
    ],
    ids=["calculation", "ratio", "interval", "driver", "reserve", "folder", "file", "database", "bus", "address"],
)
def test_what_cannot_work_is_one_line(
    stopped: Deployment, programs: list[str], changes: dict[str, dict[str, str]], said: list[str]
) -> None:
    conf = stopped.variant(**changes)
    for program in programs:
        line = one_line(stopped.attempt(program, conf, *(["db", "sync"] if program == "manage" else [])), program)
        for words in said:
            assert words in line


@pytest.mark.parametrize("program", ["agent", "standalone"])
def test_storage_that_cannot_be_used_is_named(stopped: Deployment, program: str) -> None:
    """It is looked at once the other backends may run already, so there are log lines around it."""
    ended = stopped.attempt(program, stopped.variant(two={"filesystem_path": "/dev/null/volumes"}))
    assert ended.code == 1
    said = [line for line in ended.error.splitlines() if line.startswith(f"tonnage-{program}: ")]
    assert said[0].startswith(f"tonnage-{program}: [two] filesystem_path: /dev/null/volumes cannot be used: ")
    assert "Traceback" not in ended.error


@pytest.mark.parametrize("program", ["api", "standalone"])
def test_a_taken_port_is_named(stopped: Deployment, program: str) -> None:
    with socket.create_server(("127.0.0.1", stopped.port)):
        line = one_line(stopped.attempt(program), program)
    assert f"osapi_volume_listen_port = {stopped.port}: Address already in use" in line


@pytest.mark.parametrize("program", ["scheduler", "standalone"])
def test_a_database_without_tables_names_the_command(stopped: Deployment, program: str) -> None:
    conf = stopped.variant(database={"connection": f"sqlite:///{stopped.folder / 'empty.sqlite'}"})
    assert "run 'tonnage-manage db sync'" in one_line(stopped.attempt(program, conf), program)


def test_a_full_disk_is_named(tmp_path: pathlib.Path) -> None:
    with mounted("tmpfs", tmp_path, 8) as disk, Deployment(Addresses(), BACKENDS) as tonnage:
        url = f"sqlite:///{disk}/tonnage.sqlite"
        conf = tonnage.variant(DEFAULT={"state_path": disk}, database={"connection": url})
        _fill(disk)
        line = one_line(tonnage.attempt("manage", conf, "db", "sync"), "manage")
        assert "is full" in line
        (disk / "filler").unlink()
        assert tonnage.attempt("manage", conf, "db", "sync").code == 0
        _fill(disk)
        line = one_line(tonnage.attempt("standalone", conf), "standalone")
        assert "is full" in line


def _fill(disk: pathlib.Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                pass
        except OSError:
            pass
