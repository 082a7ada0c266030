# SPDX-License-Identifier: Apache-2.0
"""Start and stop of the daemons, and their messages about wrong configurations and failed backends."""

import json
import pathlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Addresses, CommandResult, Deployment, run_process, run_program
from tests.functional.deployment.configuration import write_variant
from tests.servers.base import wait_for
from tests.unit.drivers.mounts import mounted

BACKENDS: dict[str, dict[str, Any]] = {
    "one": {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 2},
    "two": {"filesystem_size_limit_gb": 6, "max_over_subscription_ratio": 2},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    """Programs of their own. The agent reports only at its start and after changes, not about a removed folder."""
    with deploy(BACKENDS, environment={}, backend_stats_polling_interval=60) as deployment:
        yield deployment.start()


@on_one_database
def test_a_volume_that_no_pool_can_create_is_in_error_with_the_reason(tonnage: Deployment) -> None:
    rest = tonnage.rest
    for backend in BACKENDS:
        tonnage.path(backend).rename(tonnage.path(f"{backend}-away"))
    volume_id = rest.create(1)
    wait_for(lambda: rest.volume(volume_id)["status"] == "error", "the volume is in error")
    reason = rest.volume(volume_id)["status_reason"]
    assert reason.count("create failed: No such file or directory in ") == 2
    for backend in BACKENDS:
        assert f"in pool {tonnage.pool(backend)}: " in reason
    told = [one for one in rest.get("messages", "3.3")["messages"] if one["resource_uuid"] == volume_id]
    assert [(one["event_id"], one["user_message"]) for one in told] == [("volume_create_failed", reason)]
    for backend in BACKENDS:
        tonnage.path(f"{backend}-away").rename(tonnage.path(backend))
    rest.wait_until_available(rest.create(1))
    rest.delete(volume_id)
    tonnage.check_at_rest()


@on_one_database
def test_a_second_process_for_the_same_backend_is_refused(tonnage: Deployment) -> None:
    program = "agent" if tonnage.distributed else "standalone"
    conf = tonnage.conf_with(DEFAULT={"osapi_volume_listen_port": 0})
    line = error_line(tonnage.run_command(program, conf), program)
    assert f"backend {tonnage.host}@one is run by another process (process " in line
    tonnage.rest.wait_until_available(tonnage.rest.create(1))


@pytest.mark.heavy
@on_one_database
def test_volumes_survive_a_clean_stop_and_start(tonnage: Deployment) -> None:
    rest = tonnage.rest
    for number, whole_group in ((signal.SIGTERM, False), (signal.SIGINT, True)):
        # Volumes that are accepted before the signal are created before or after the restart.
        for _ in range(4):
            rest.create(1)
        volumes = {volume["id"] for volume in rest.volumes()}
        assert tonnage.stop(number, whole_group=whole_group) == dict.fromkeys(tonnage.processes, 0)
        assert "Traceback" not in tonnage.logs()
        tonnage.check_counters()
        tonnage.start()
        tonnage.check_at_rest()
        assert {volume["id"]: volume["status"] for volume in rest.volumes()} == dict.fromkeys(volumes, "available")


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module")
def test_a_silent_backend_is_down_until_its_next_report(deploy: Deploy) -> None:
    with deploy({"one": BACKENDS["one"]}, service_down_time=6) as tonnage:
        rest, pool = tonnage.start().rest, tonnage.pool("one")

        def states() -> dict[str, str]:
            return {one["binary"]: one["state"] for one in rest.get("os-services")["services"]}

        wait_for(lambda: rest.pools()[pool]["backend_state"] == "up", "the backend is up")
        agent = tonnage.processes["agent"].tree()
        for process in agent:
            process.suspend()
        # Other services stay up, except for short moments on a machine that pauses.
        missed = 0

        def down() -> bool:
            nonlocal missed
            shown = states()
            missed += shown["cinder-scheduler"] != "up" or not rest.is_healthy()
            return shown["cinder-volume"] == "down"

        wait_for(down, "os-services shows the backend as down")
        wait_for(lambda: rest.pools()[pool]["backend_state"] == "down", "get_pools shows the backend as down")
        alone = {"cinder-volume": "down", "cinder-scheduler": "up"}
        wait_for(lambda: states() == alone and rest.is_healthy(), "the scheduler is up and the API healthy")
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

        wait_for(up_again, "the backend is up again")
        wait_for(lambda: states() == dict.fromkeys(alone, "up"), "os-services shows the backend as up")

        def created() -> str | None:
            answer = rest.request_volume(1)
            return str(answer.json()["volume"]["id"]) if answer.status_code == 202 else None

        # On a machine that pauses the backend may be silent again for as long.
        rest.wait_until_available(wait_for(created, "a volume is accepted"))


@pytest.fixture(scope="module")
def stopped() -> Iterator[Deployment]:
    """A deployment with a correct configuration, whose processes are not started."""
    with Deployment(Addresses(), BACKENDS) as deployment:
        yield deployment


def error_line(result: CommandResult, program: str) -> str:
    """Return the error output of a failed command, which must be one line."""
    assert result.code == 1, result
    assert result.error.startswith(f"tonnage-{program}: ")
    assert result.error.endswith("\n")
    assert result.error.count("\n") == 1, result.error
    return result.error


@pytest.mark.parametrize(
    ("programs", "changes", "words"),
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
    ids=["calculation", "ratio", "folder", "file", "database", "bus", "address"],
)
def test_a_wrong_configuration_is_reported_in_one_line(
    stopped: Deployment, programs: list[str], changes: dict[str, dict[str, str]], words: list[str]
) -> None:
    conf = stopped.conf_with(**changes)
    for program in programs:
        line = error_line(stopped.run_command(program, conf, *(["db", "sync"] if program == "manage" else [])), program)
        for word in words:
            assert word in line


@pytest.mark.parametrize(
    "deploy", ["standalone", pytest.param("postgresql", marks=pytest.mark.heavy)], indirect=True, scope="module"
)
def test_a_backend_whose_storage_cannot_be_used_is_down_and_tried_again(deploy: Deploy) -> None:
    with deploy({"one": {}, "two": {}}) as tonnage:
        obstacle = tonnage.path("two")
        obstacle.parent.mkdir(parents=True, exist_ok=True)
        obstacle.write_text("no folder")
        for name in ("standalone",) if not tonnage.distributed else ("scheduler", "api", "agent"):
            tonnage.launch(name)
        wait_for(tonnage.rest.is_healthy, "the API serves")
        wait_for(lambda: tonnage.pool("one") in tonnage.rest.pools(), "the other backend reports")
        tonnage.rest.wait_until_available(tonnage.rest.create(1))

        def state() -> Any:
            services = tonnage.rest.get("os-services")["services"]
            return next((each["state"] for each in services if each["host"] == f"{tonnage.host}@two"), None)

        wait_for(lambda: state() == "down", "the backend is shown as down")
        assert (
            f"Backend {tonnage.host}@two cannot start yet and keeps trying: [two] filesystem_path: " in tonnage.logs()
        )
        obstacle.unlink()
        wait_for(lambda: state() == "up", "the backend has started")
        assert "Traceback" not in tonnage.logs()


@pytest.mark.parametrize("program", ["api", "standalone"])
def test_a_port_in_use_is_reported_with_its_option(stopped: Deployment, program: str) -> None:
    with socket.create_server(("127.0.0.1", stopped.port)):
        line = error_line(stopped.run_command(program), program)
    assert f"osapi_volume_listen_port = {stopped.port}: Address already in use" in line


@pytest.mark.parametrize("program", ["scheduler", "standalone"])
def test_an_empty_database_is_reported_with_the_command_to_run(stopped: Deployment, program: str) -> None:
    conf = stopped.conf_with(database={"connection": f"sqlite:///{stopped.folder / 'empty.sqlite'}"})
    assert "run 'tonnage-manage db sync'" in error_line(stopped.run_command(program, conf), program)


@pytest.mark.heavy
def test_a_full_disk_is_reported(tmp_path: pathlib.Path) -> None:
    with mounted("tmpfs", tmp_path, 8) as disk, Deployment(Addresses(), BACKENDS, {}) as tonnage:
        url = f"sqlite:///{disk}/tonnage.sqlite"
        conf = tonnage.conf_with(DEFAULT={"state_path": disk}, database={"connection": url})
        _fill(disk)
        line = error_line(tonnage.run_command("manage", conf, "db", "sync"), "manage")
        assert "is full" in line
        (disk / "filler").unlink()
        assert tonnage.run_command("manage", conf, "db", "sync").code == 0
        _fill(disk)
        line = error_line(tonnage.run_command("standalone", conf), "standalone")
        assert "is full" in line


def _fill(disk: pathlib.Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                pass
        except OSError:
            pass


@pytest.mark.parametrize(
    "deploy", ["postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)], indirect=True, scope="module"
)
def test_volumes_go_to_others_while_an_agent_is_stopped(deploy: Deploy) -> None:
    """Only a volume that fits nowhere else waits for the agent, and is made when that is back."""
    with deploy({"disk": {"filesystem_size_limit_gb": 4, "max_over_subscription_ratio": 1}}) as tonnage:
        rest = tonnage.start().rest
        here = tonnage.pool("disk")
        options = {"filesystem_path": tonnage.folder / "large", "filesystem_size_limit_gb": 40}
        conf = tonnage.conf_with(DEFAULT={"host": "large"}, disk=options)
        with run_process("agent", conf):
            wait_for(lambda: "large@disk#disk" in rest.pools(), "the large pool is reported")
            assert rest.wait_until_available(rest.create(1))["os-vol-host-attr:host"] == "large@disk#disk"
        small = rest.wait_until_available(rest.create(1))
        assert small["os-vol-host-attr:host"] == here
        waiting = rest.create(10)
        assert rest.volume(waiting)["os-vol-host-attr:host"] == "large@disk#disk"
        listed = run_program("tonnage-manage", "backend", "list", "--config-file", tonnage.conf, "--json").output
        assert [row["problem"] for row in json.loads(listed) if row["name"] == f"{tonnage.host}@disk"] == [None]
        [problem] = [row["problem"] for row in json.loads(listed) if row["name"] == "large@disk"]
        assert problem.startswith("its agent stopped at 20")
        with run_process("agent", conf):
            rest.wait_until_available(waiting)


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["standalone"], indirect=True, scope="module")
def test_volumes_go_to_enabled_backends_after_a_restart_without_another(deploy: Deploy) -> None:
    sizes = {"kept": 4, "gone": 40}
    backends = {name: {"filesystem_size_limit_gb": size} for name, size in sizes.items()}
    with deploy(backends, max_over_subscription_ratio=1) as tonnage:
        rest = tonnage.start().rest
        assert rest.wait_until_available(rest.create(1))["os-vol-host-attr:host"] == tonnage.pool("gone")
        tonnage.end("standalone")
        write_variant(tonnage.conf, tonnage.conf, {"DEFAULT": {"enabled_backends": "kept"}})
        tonnage.launch("standalone")
        wait_for(rest.is_healthy, "Tonnage is ready")
        assert rest.wait_until_available(rest.create(1))["os-vol-host-attr:host"] == tonnage.pool("kept")
