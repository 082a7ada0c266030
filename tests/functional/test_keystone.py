# SPDX-License-Identifier: Apache-2.0
"""The permissions of roles and projects under ``auth_strategy = keystone``, with a real Keystone."""

import os
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import openstack
import openstack.connection
import openstack.exceptions
import pytest
import requests
from oslo_config import cfg

from tests.functional import commands
from tests.functional.clients import Account, Clients
from tests.functional.deployment import Credentials, Deployment, standalone
from tests.servers.base import wait_for
from tests.servers.keystone import PASSWORD, REGION, Keystone
from tonnage.capacity import errors
from tonnage.cli.simulation import scheduler_query
from tonnage.rpc import options as rpc_options

#: openstacksdk warns of deprecated functions that it uses itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
]

ROLES = ("reader", "member", "admin")


class Cloud:
    """Tonnage with Keystone, and two projects with an account of each role."""

    def __init__(self, keystone: Keystone, tonnage: Deployment) -> None:
        self.keystone, self.url = keystone, tonnage.rest.url
        keystone.make_endpoint(f"{self.url}/v3")
        self.projects = {name: keystone.make_project(name) for name in ("ours", "theirs")}
        for project, project_id in self.projects.items():
            for role in ROLES:
                keystone.make_user(f"{role}-{project}", project_id, role)
        self._connections: dict[tuple[str, str], openstack.connection.Connection] = {}

    def connect(self, role: str, project: str = "ours") -> Any:
        """Return an account's connection of openstacksdk, whose attributes are dynamic."""
        if (role, project) not in self._connections:
            self._connections[role, project] = openstack.connection.Connection(
                auth={
                    "auth_url": self.keystone.url,
                    "username": f"{role}-{project}",
                    "password": PASSWORD,
                    "project_id": self.projects[project],
                    "user_domain_name": "Default",
                },
                region_name=REGION,
                block_storage_default_microversion="3.71",
            )
        return self._connections[role, project]

    def token(self, role: str, project: str = "ours") -> str:
        """Return a new token of an account."""
        return self.keystone.login(f"{role}-{project}", {"project": {"id": self.projects[project]}})

    def get(self, path: str, token: str | None = None, **headers: str) -> requests.Response:
        """Send a plain HTTP request."""
        sent = headers if token is None else {"X-Auth-Token": token, **headers}
        return requests.get(f"{self.url}{path}", headers=sent, timeout=30)

    def create(self, project: str = "ours", name: str | None = None) -> Any:
        """Create a volume of 1 GiB and wait until it is available."""
        storage = self.connect("member", project).block_storage
        return storage.wait_for_status(storage.create_volume(size=1, name=name), "available", interval=0.1, wait=60)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="module")
def cloud(keystone_server: Keystone) -> Iterator[Cloud]:
    # Do not wait for a Keystone that does not answer.
    options = {**keystone_server.options, "http_request_max_retries": 0}
    project_id = keystone_server.make_project("operators")
    keystone_server.make_user("operator", project_id, "admin")
    operator = Credentials(options, keystone_server.login("operator", {"project": {"id": project_id}}), project_id)
    # With authentication the API may listen on all addresses.
    with standalone(credentials=operator, osapi_volume_listen="0.0.0.0") as tonnage:  # noqa: S104
        made = Cloud(keystone_server, tonnage)
        yield made
        made.close()


def assert_forbidden(call: Callable[[], Any]) -> None:
    """Assert that the policy forbids a call."""
    with pytest.raises(openstack.exceptions.ForbiddenException) as raised:
        call()
    assert "Policy doesn't allow" in str(raised.value)


def assert_not_found(call: Callable[[], Any]) -> None:
    """Assert that a call is answered as if the object did not exist."""
    with pytest.raises(openstack.exceptions.NotFoundException):
        call()


def test_a_request_without_a_valid_token_is_unauthorized(cloud: Cloud) -> None:
    for path in ("/v3/volumes", f"/v3/{cloud.projects['ours']}/volumes", "/v3/limits", "/v3/extensions"):
        for token in (None, "no-such-token"):
            answer = cloud.get(path, token)
            assert answer.status_code == 401
            assert answer.json()["unauthorized"]["code"] == 401
            assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{cloud.keystone.url}"'
            assert answer.headers["x-openstack-request-id"].startswith("req-")
    # A client cannot forge the headers that the middleware sets.
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "me", "X-Project-Id": "p", "X-Roles": "admin"}
    assert cloud.get("/v3/volumes", **forged).status_code == 401


def test_versions_health_and_openapi_document_need_no_token(cloud: Cloud) -> None:
    for path, status in (("/", 300), ("/v3", 200), ("/v3/", 200), ("/v3/openapi.json", 200)):
        assert cloud.get(path).status_code == status
    # The health check probes the message bus as well, which takes a second.
    wait_for(lambda: cloud.get("/healthcheck").status_code == 200, "the health check passes")
    assert cloud.get("/identity/v3").status_code == 404


def test_a_revoked_token_is_unauthorized(cloud: Cloud) -> None:
    token = cloud.token("reader")
    cloud.keystone.revoke(token)
    assert cloud.get("/v3/volumes", token).status_code == 401


def test_a_path_with_another_project_than_the_token_is_refused(cloud: Cloud) -> None:
    for role in ROLES:
        token = cloud.token(role)
        assert cloud.get(f"/v3/{cloud.projects['ours']}/volumes", token).status_code == 200
        answer = cloud.get(f"/v3/{cloud.projects['theirs']}/volumes", token)
        assert answer.status_code == 400
        assert answer.json()["badRequest"]["message"].startswith("Malformed request url")
        # Headers of the client with another project or role have no effect.
        forged = {"X-Project-Id": cloud.projects["theirs"], "X-Roles": "admin"}
        listed = cloud.get("/v3/scheduler-stats/get_pools", token, **forged)
        assert listed.status_code == (200 if role == "admin" else 403)


def test_a_system_scoped_token_gives_no_access_to_projects(cloud: Cloud) -> None:
    token = cloud.keystone.login("admin", {"system": {"all": True}})
    assert cloud.get(f"/v3/{cloud.projects['ours']}/volumes", token).status_code == 400
    assert cloud.get("/v3/volumes", token).status_code == 403
    assert cloud.get("/v3/scheduler-stats/get_pools", token).status_code == 403


def test_a_reader_can_read_but_not_change(cloud: Cloud) -> None:
    volume = cloud.create(name="kept")
    reader = cloud.connect("reader").block_storage
    assert reader.get_volume(volume.id).name == "kept"
    assert reader.get_limits().absolute.total_volumes_used >= 1
    assert [one.id for one in reader.volumes() if one.name == "kept"] == [volume.id]
    for call in (
        lambda: reader.create_volume(size=1),
        lambda: reader.update_volume(volume, name="other"),
        lambda: reader.extend_volume(volume, 2),
        lambda: reader.delete_volume(volume),
        lambda: reader.create_type(name="x"),
        lambda: reader.reset_volume_status(volume, "error"),
        lambda: reader.update_quota_set(cloud.projects["ours"], volumes=1),
        lambda: list(reader.backend_pools()),
        lambda: list(reader.services()),
    ):
        assert_forbidden(call)
    assert reader.get_volume(volume.id).size == 1


def test_a_member_manages_volumes_but_not_the_cloud(cloud: Cloud) -> None:
    volume = cloud.create()
    member = cloud.connect("member").block_storage
    assert member.update_volume(volume, name="mine").name == "mine"
    member.extend_volume(volume, 2)
    wait_for(lambda: member.get_volume(volume.id).size == 2, "the volume is extended")
    shown = member.get_volume(volume.id)
    assert shown.project_id == cloud.projects["ours"]
    assert shown.user_id == cloud.connect("member").current_user_id
    assert shown.host is None
    for call in (
        lambda: member.reset_volume_status(volume, "error"),
        lambda: member.create_type(name="x"),
        lambda: member.update_quota_set(cloud.projects["ours"], volumes=1),
        lambda: member.migrate_volume(volume, host="box@thick#thick"),
        lambda: list(member.backend_pools()),
        lambda: list(member.services()),
    ):
        assert_forbidden(call)
    member.delete_volume(volume)
    member.wait_for_delete(volume, interval=0.1, wait=60)


def test_an_administrator_manages_all_projects_and_pools(cloud: Cloud) -> None:
    volume = cloud.create("theirs")
    admin = cloud.connect("admin").block_storage
    assert {pool.name for pool in admin.backend_pools()} == {"box@thin#thin", "box@thick#thick"}
    assert {service.binary for service in admin.services()} == {"cinder-scheduler", "cinder-volume"}
    assert admin.get_volume(volume.id).host
    assert volume.id in {one.id for one in admin.volumes(all_projects=True)}
    kind = admin.create_type(name=f"t-{uuid.uuid4().hex[:8]}")
    assert kind.id in {one.id for one in cloud.connect("reader").block_storage.types()}
    admin.delete_type(kind)
    assert admin.update_quota_set(cloud.projects["theirs"], volumes=123).volumes == 123
    assert cloud.connect("member", "theirs").block_storage.get_quota_set(cloud.projects["theirs"]).volumes == 123
    admin.delete_volume(volume)
    cloud.connect("member", "theirs").block_storage.wait_for_delete(volume, interval=0.1, wait=60)


@pytest.mark.heavy
def test_the_clients_find_tonnage_in_the_catalog(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    with Clients(cloud.url, tmp_path, Account(cloud.keystone.url, "admin-ours", PASSWORD, "ours")) as clients:
        user = commands.Cloud(
            clients=clients,
            storage=cloud.connect("admin").block_storage,
            project=cloud.projects["ours"],
            pool="box@thin#thin",
            other_pool="box@thick#thick",
            has_identity=True,
        )
        commands.pools(user)
        commands.volumes_by_openstack(user)


def test_the_tonnage_command_authenticates(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    conf = cfg.ConfigOpts()
    rpc_options.register(conf)
    conf([], project="tonnage", default_config_files=[], default_config_dirs=[])
    question, target = {"requests": [{"volume": {"size": 1}}]}, scheduler_query.QueryTarget(url=cloud.url)
    monkeypatch.setenv("OS_TOKEN", cloud.token("member"))
    with pytest.raises(errors.InvalidInput, match="Policy doesn't allow"):
        scheduler_query.query(conf, question, target)
    monkeypatch.delenv("OS_TOKEN")
    account = {"AUTH_URL": cloud.keystone.url, "USERNAME": "admin-ours", "PASSWORD": PASSWORD, "PROJECT_NAME": "ours"}
    for name, value in {**account, "USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_NAME": "Default"}.items():
        monkeypatch.setenv(f"OS_{name}", value)
    [outlook] = scheduler_query.query(conf, question, target)
    assert outlook.volumes[0].pool == "box@thin#thin"
    monkeypatch.setenv("OS_PASSWORD", "wrong")
    with pytest.raises(errors.ConfigurationError, match="requires authentication"):
        scheduler_query.query(conf, question, target)


def test_a_project_neither_sees_nor_changes_volumes_of_another(cloud: Cloud) -> None:
    theirs = cloud.create("theirs", name="secret")
    ours = cloud.connect("member").block_storage
    before = cloud.connect("member", "theirs").block_storage.get_volume(theirs.id)
    used = ours.get_limits().absolute.total_volumes_used
    for query in ({}, {"name": "secret"}, {"all_projects": True}, {"project_id": cloud.projects["theirs"]}):
        assert theirs.id not in {one.id for one in ours.volumes(**query)}
    for call in (
        lambda: ours.get_volume(theirs.id),
        lambda: ours.update_volume(theirs.id, name="mine"),
        lambda: ours.extend_volume(theirs.id, 2),
        lambda: ours.delete_volume(theirs.id, ignore_missing=False),
        lambda: ours.reset_volume_status(theirs.id, "error"),
        lambda: ours.create_volume(size=1, source_volume_id=theirs.id),
    ):
        assert_not_found(call)
    assert_forbidden(lambda: ours.get_quota_set(cloud.projects["theirs"]))
    assert cloud.connect("member", "theirs").block_storage.get_volume(theirs.id) == before
    assert ours.get_limits().absolute.total_volumes_used == used


@pytest.mark.heavy
def test_unknown_tokens_get_503_while_keystone_is_down(cloud: Cloud) -> None:
    known, strange = cloud.token("reader"), cloud.token("reader")
    assert cloud.get("/v3/volumes", known).status_code == 200
    cloud.keystone.kill()
    try:
        answer = cloud.get("/v3/volumes", strange)
        assert (answer.status_code, list(answer.json())) == (503, ["serviceUnavailable"])
        assert int(answer.headers["Retry-After"]) > 0
        assert cloud.get("/v3").status_code == 200
        wait_for(lambda: cloud.get("/healthcheck").status_code == 200, "the health check passes")
    finally:
        cloud.keystone.start()
    assert cloud.get("/v3/volumes", strange).status_code == 200
