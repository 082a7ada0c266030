# SPDX-License-Identifier: Apache-2.0
"""The listener for Prometheus: its pages, who reads them, and the options that it takes."""

import base64
import gzip
import pathlib
from collections.abc import Callable, Iterator

import bcrypt
import pytest
import requests
from falcon import testing

from tests.unit.api.cluster import configuration
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.api.http.server import Server
from tonnage.api.monitoring import server
from tonnage.api.monitoring.cached_page import CachedPage
from tonnage.api.monitoring.ledger_page import LedgerPage
from tonnage.api.monitoring.web_config import WebConfig
from tonnage.capacity import errors
from tonnage.ledger.db import database

SECRET = "secret"  # noqa: S105


class Away(CachedPage):
    """A page whose database does not answer."""

    def text(self, backend: str | None) -> bytes:
        raise errors.Unavailable("postgresql://user:secret@db is gone")


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    """A pool, and a ledger in a file, which threads of a server can read."""
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    yield World({"p0": StoragePool(20, 2.0, thin=True, thick=False)}, engine=engine).started()
    engine.dispose()


@pytest.fixture
def users(tmp_path: pathlib.Path) -> str:
    """The name of a file with one user."""
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users: {{prometheus: {bcrypt.hashpw(SECRET.encode(), bcrypt.gensalt(4)).decode()}}}\n")
    return str(file)


def client(world: World) -> testing.TestClient:
    pages = {"/metrics/ledger": LedgerPage(world.database, 60.0, 100, 0.0, []), "/metrics/away": Away(0.0)}
    return testing.TestClient(server.application(pages))


@pytest.fixture
def build(tmp_path: pathlib.Path, world: World) -> Callable[..., Server | None]:
    """A function that builds the listener of the API with these options of ``[metrics]``, on a free port."""

    def built(**values: object) -> Server | None:
        file = tmp_path / "tonnage.conf"
        section = {"enabled": True, "api_listen_port": 0, **values}
        file.write_text("\n".join(["[metrics]", *(f"{name} = {value}" for name, value in section.items())]))
        return server.build(configuration([str(file)]), world.database, "api_listen_port")

    return built


def test_the_counters_of_the_process_have_the_format_that_the_client_takes(world: World) -> None:
    answer = client(world).simulate_get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert "tonnage_scheduler_decisions_total" in answer.text
    accepted = client(world).simulate_get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert accepted.headers["Content-Type"].startswith("application/openmetrics-text")
    assert accepted.text.endswith("# EOF\n")


def test_the_page_about_the_ledger_is_compressed_for_clients_that_take_it(world: World) -> None:
    plain = client(world).simulate_get("/metrics/ledger", headers={"Accept-Encoding": "deflate"})
    assert f'tonnage_backend_up{{backend="{BACKEND}"' in plain.text
    packed = client(world).simulate_get("/metrics/ledger", headers={"Accept-Encoding": "deflate, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert b"tonnage_backend_up" in gzip.decompress(packed.content)
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert "Content-Encoding" not in plain.headers


def test_a_part_is_about_one_backend(world: World) -> None:
    text = client(world).simulate_get("/metrics/ledger?backend=another@backend").text
    assert BACKEND not in text


def test_while_the_database_is_away_the_status_is_503_and_tells_no_password(world: World) -> None:
    answer = client(world).simulate_get("/metrics/away")
    assert answer.status_code == 503
    assert "the database does not answer" in answer.text
    assert "secret" not in answer.text
    assert client(world).simulate_get("/metrics").status_code == 200


def test_only_the_users_of_the_file_read_the_metrics(users: str) -> None:
    guarded = testing.TestClient(server.application({}, WebConfig(users)))
    refused = guarded.simulate_get("/metrics")
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Basic realm="metrics"')
    assert "tonnage_" not in refused.text
    token = base64.b64encode(f"prometheus:{SECRET}".encode()).decode()
    assert guarded.simulate_get("/metrics", headers={"Authorization": f"Basic {token}"}).status_code == 200


def test_without_the_option_there_is_no_listener(build: Callable[..., Server | None]) -> None:
    assert build(enabled=False) is None


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
def test_other_machines_read_metrics_with_a_file_of_users_alone(
    build: Callable[..., Server | None], users: str, address: str
) -> None:
    with pytest.raises(errors.ConfigurationError) as raised:
        build(listen=address)
    assert raised.value.message == (
        f"[metrics] listen = {address} may be reached from other machines: listen on 127.0.0.1, or set "
        "web_config_file to a file with users and a certificate"
    )
    assert build(listen=address, web_config_file=users) is not None


def test_an_unusable_file_of_users_is_an_error_before_anything_listens(
    build: Callable[..., Server | None], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"\[metrics\] web_config_file"):
        build(web_config_file=tmp_path / "none.yml")


@pytest.mark.parametrize(("openstack", "status"), [(False, 404), (True, 200)])
def test_the_page_for_openstack_is_there_if_the_option_is_set(
    build: Callable[..., Server | None], openstack: bool, status: int
) -> None:
    listener = build(openstack=openstack)
    assert listener is not None
    listener.start()
    try:
        assert requests.get(f"{listener.url}/metrics/openstack", timeout=20).status_code == status
        assert requests.get(f"{listener.url}/metrics/ledger", timeout=20).status_code == 200
    finally:
        listener.stop()
