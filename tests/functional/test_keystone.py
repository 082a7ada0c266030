# SPDX-License-Identifier: Apache-2.0
"""``auth_strategy = keystone``, with the real Keystone: who may do what, and in which project."""

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
from tests.functional.deployment import render
from tests.functional.standalone import Standalone, standalone, wait_until
from tests.servers.keystone import PASSWORD, REGION, Keystone
from tonnage.capacity import errors
from tonnage.cli.commands import scheduler_query
from tonnage.rpc import options as rpc_options

#: openstacksdk warns of what it will be without one day, and uses it itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
]

ROLES = ("reader", "member", "admin")


class Cloud:
    """Tonnage beside Keystone, with two projects that have an account of each role."""

    def __init__(self, keystone: Keystone, tonnage: Standalone) -> None:
        self.keystone, self.url = keystone, tonnage.url
        keystone.make_endpoint(f"{tonnage.url}/v3")
        self.projects = {name: keystone.make_project(name) for name in ("ours", "theirs")}
        for project, project_id in self.projects.items():
            for role in ROLES:
                keystone.make_user(f"{role}-{project}", project_id, role)
        self._connections: dict[tuple[str, str], openstack.connection.Connection] = {}

    def connect(self, role: str, project: str = "ours") -> Any:
        """Return openstacksdk's client of an account; mypy cannot see its parts, made as they are asked for."""
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
        """Send a request past all clients."""
        sent = headers if token is None else {"X-Auth-Token": token, **headers}
        return requests.get(f"{self.url}{path}", headers=sent, timeout=30)

    def create(self, project: str = "ours", name: str | None = None) -> Any:
        """Make a volume of 1 GiB and wait until it is there."""
        storage = self.connect("member", project).block_storage
        return storage.wait_for_status(storage.create_volume(size=1, name=name), "available", interval=0.1, wait=60)

    def close(self) -> None:
        """Let go of all connections."""
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="module")
def cloud(keystone_server: Keystone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    # One that does not answer is not waited for.
    section = render({"keystone_authtoken": {**keystone_server.options, "http_request_max_retries": 0}})
    # Any address will do where everybody has to say who he is.
    extra = f"auth_strategy = keystone\nosapi_volume_listen = 0.0.0.0\n{section}"
    with standalone(tmp_path_factory.mktemp("standalone"), extra) as tonnage:
        made = Cloud(keystone_server, tonnage)
        yield made
        made.close()


def forbidden(call: Callable[[], Any]) -> None:
    """The rules do not let the user do this."""
    with pytest.raises(openstack.exceptions.ForbiddenException) as raised:
        call()
    assert "Policy doesn't allow" in str(raised.value)


def absent(call: Callable[[], Any]) -> None:
    """The resource does not exist for this user."""
    with pytest.raises(openstack.exceptions.NotFoundException):
        call()


def test_who_says_not_who_he_is_is_asked_to(cloud: Cloud) -> None:
    for path in ("/v3/volumes", f"/v3/{cloud.projects['ours']}/volumes", "/v3/limits", "/v3/extensions"):
        for token in (None, "no-such-token"):
            answer = cloud.get(path, token)
            assert answer.status_code == 401
            assert answer.json()["unauthorized"]["code"] == 401
            assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{cloud.keystone.url}"'
            assert answer.headers["x-openstack-request-id"].startswith("req-")
    # The middleware's word for who asks is nobody else's to give.
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "me", "X-Project-Id": "p", "X-Roles": "admin"}
    assert cloud.get("/v3/volumes", **forged).status_code == 401


def test_versions_health_and_document_are_for_everybody(cloud: Cloud) -> None:
    for path, status in (("/", 300), ("/v3", 200), ("/v3/", 200), ("/v3/openapi.json", 200)):
        assert cloud.get(path).status_code == status
    # Which is asked of the message bus as well, in a second.
    wait_until(lambda: cloud.get("/healthcheck").status_code == 200, 60)
    assert cloud.get("/identity/v3").status_code == 404


def test_a_token_that_was_taken_back_is_worth_nothing(cloud: Cloud) -> None:
    token = cloud.token("reader")
    cloud.keystone.revoke(token)
    assert cloud.get("/v3/volumes", token).status_code == 401


def test_the_project_in_the_address_is_the_one_of_the_token(cloud: Cloud) -> None:
    for role in ROLES:
        token = cloud.token(role)
        assert cloud.get(f"/v3/{cloud.projects['ours']}/volumes", token).status_code == 200
        answer = cloud.get(f"/v3/{cloud.projects['theirs']}/volumes", token)
        assert answer.status_code == 400
        assert answer.json()["badRequest"]["message"].startswith("Malformed request url")
        # What the headers say is for Keystone to tell.
        forged = {"X-Project-Id": cloud.projects["theirs"], "X-Roles": "admin"}
        listed = cloud.get("/v3/scheduler-stats/get_pools", token, **forged)
        assert listed.status_code == (200 if role == "admin" else 403)


def test_tokens_for_the_system_are_for_no_project(cloud: Cloud) -> None:
    token = cloud.keystone.login("admin", {"system": {"all": True}})
    assert cloud.get(f"/v3/{cloud.projects['ours']}/volumes", token).status_code == 400
    assert cloud.get("/v3/volumes", token).status_code == 403
    assert cloud.get("/v3/scheduler-stats/get_pools", token).status_code == 403


def test_a_reader_looks_and_changes_nothing(cloud: Cloud) -> None:
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
        forbidden(call)
    assert reader.get_volume(volume.id).size == 1


def test_a_member_has_volumes_and_no_say_in_the_cloud(cloud: Cloud) -> None:
    volume = cloud.create()
    member = cloud.connect("member").block_storage
    assert member.update_volume(volume, name="mine").name == "mine"
    member.extend_volume(volume, 2)
    wait_until(lambda: member.get_volume(volume.id).size == 2, 60)
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
        forbidden(call)
    member.delete_volume(volume)
    member.wait_for_delete(volume, interval=0.1, wait=60)


def test_an_administrator_sees_to_the_cloud(cloud: Cloud) -> None:
    volume = cloud.create("theirs")
    admin = cloud.connect("admin").block_storage
    assert {pool.name for pool in admin.backend_pools()} == {"box@thin#thin", "box@thick#thick"}
    assert {service.binary for service in admin.services()} == {"tonnage-scheduler", "tonnage-agent"}
    assert admin.get_volume(volume.id).host
    assert volume.id in {one.id for one in admin.volumes(all_projects=True)}
    kind = admin.create_type(name=f"t-{uuid.uuid4().hex[:8]}")
    assert kind.id in {one.id for one in cloud.connect("reader").block_storage.types()}
    admin.delete_type(kind)
    assert admin.update_quota_set(cloud.projects["theirs"], volumes=123).volumes == 123
    assert cloud.connect("member", "theirs").block_storage.get_quota_set(cloud.projects["theirs"]).volumes == 123
    admin.delete_volume(volume)
    cloud.connect("member", "theirs").block_storage.wait_for_delete(volume, interval=0.1, wait=60)


def test_the_commands_find_it_in_the_catalog(cloud: Cloud, tmp_path: pathlib.Path) -> None:
    with Clients(cloud.url, tmp_path, Account(cloud.keystone.url, "admin-ours", PASSWORD, "ours")) as clients:
        cloud_user = commands.Cloud(
            clients=clients,
            storage=cloud.connect("admin").block_storage,
            project=cloud.projects["ours"],
            pool="box@thin#thin",
            other_pool="box@thick#thick",
            has_identity=True,
        )
        commands.pools(cloud_user)
        commands.volumes_by_openstack(cloud_user)


def test_the_command_tonnage_says_who_asks(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_no_project_sees_or_changes_what_is_of_another(cloud: Cloud) -> None:
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
        absent(call)
    forbidden(lambda: ours.get_quota_set(cloud.projects["theirs"]))
    assert cloud.connect("member", "theirs").block_storage.get_volume(theirs.id) == before
    assert ours.get_limits().absolute.total_volumes_used == used


def test_while_keystone_is_away_nobody_is_known(cloud: Cloud) -> None:
    known, strange = cloud.token("reader"), cloud.token("reader")
    assert cloud.get("/v3/volumes", known).status_code == 200
    cloud.keystone.kill()
    try:
        answer = cloud.get("/v3/volumes", strange)
        assert (answer.status_code, list(answer.json())) == (503, ["serviceUnavailable"])
        assert int(answer.headers["Retry-After"]) > 0
        assert cloud.get("/v3").status_code == 200
        wait_until(lambda: cloud.get("/healthcheck").status_code == 200, 60)
    finally:
        cloud.keystone.start()
    assert cloud.get("/v3/volumes", strange).status_code == 200
