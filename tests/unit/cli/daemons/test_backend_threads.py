# SPDX-License-Identifier: Apache-2.0
"""The backends of ``tonnage-standalone``, with a real scheduler."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.servers.base import wait_for
from tests.unit.cli.conftest import RestApi
from tests.unit.cli.daemons.test_backend_changes import ConfigFile
from tonnage.capacity import errors
from tonnage.cli.daemons.backend_changes import BackendConfiguration
from tonnage.cli.daemons.backend_threads import BackendThreads


@pytest.fixture
def file(tmp_path: pathlib.Path) -> ConfigFile:
    """A file that enables the backends ``a`` and ``b``."""
    file = ConfigFile(tmp_path / "tonnage.conf")
    file.write("a, b", a="", b="")
    return file


@pytest.fixture
def configuration(file: ConfigFile) -> BackendConfiguration:
    return BackendConfiguration(file.read)


@pytest.fixture
def build(rest_api: RestApi) -> Iterator[Callable[[BackendConfiguration], BackendThreads]]:
    """A function that builds the backends; the end of the test stops them."""
    running: list[BackendThreads] = []

    def built(configuration: BackendConfiguration) -> BackendThreads:
        running.append(BackendThreads(configuration, rest_api.cluster.bus))
        return running[-1]

    yield built
    for backends in running:
        backends.stop()


def pools(rest_api: RestApi) -> set[str]:
    answer = rest_api.client.simulate_get("/v3/scheduler-stats/get_pools").json["pools"]
    return {pool["name"] for pool in answer if pool["name"].startswith("h@")}


def take_over(configuration: BackendConfiguration, backends: BackendThreads) -> None:
    """Take over the current file."""
    changes = configuration.usable_changes()
    configuration.adopt(changes)
    backends.change(changes)


def test_backends_run_after_the_start_and_follow_the_file(
    build: Callable[[BackendConfiguration], BackendThreads],
    file: ConfigFile,
    configuration: BackendConfiguration,
    rest_api: RestApi,
) -> None:
    backends = build(configuration)
    assert backends.names == set()
    backends.start()
    assert (backends.names, backends.failure) == ({"h@a", "h@b"}, None)
    wait_for(lambda: pools(rest_api) == {"h@a#pool1", "h@b#pool1"}, "both backends have reported")
    file.write("b, c", b="reserved_percentage = 5", c="")
    take_over(configuration, backends)
    assert backends.names == {"h@b", "h@c"}
    wait_for(lambda: pools(rest_api) == {"h@b#pool1", "h@c#pool1"}, "the pools are those of the file")
    file.write("a", a="")
    take_over(configuration, backends)
    assert backends.names == {"h@a"}
    wait_for(lambda: pools(rest_api) == {"h@a#pool1"}, "a withdrawn backend is there again")


def test_a_backend_that_another_process_runs_is_an_error_at_the_start(
    build: Callable[[BackendConfiguration], BackendThreads], configuration: BackendConfiguration
) -> None:
    build(configuration).start()
    second = build(configuration)
    with pytest.raises(errors.TonnageError, match="backend h@a is run by another process"):
        second.start()
    assert second.names == set()


def test_a_backend_that_cannot_start_later_is_logged_and_the_others_run(
    build: Callable[[BackendConfiguration], BackendThreads],
    file: ConfigFile,
    configuration: BackendConfiguration,
    caplog: pytest.LogCaptureFixture,
) -> None:
    build(configuration).start()
    file.write("c", c="")
    other_configuration = BackendConfiguration(file.read)
    other = build(other_configuration)
    other.start()
    file.write("c, a, d", a="", c="", d="")
    take_over(other_configuration, other)
    assert other.names == {"h@c", "h@d"}
    assert "Backend h@a cannot start: backend h@a is run by another process" in caplog.text
