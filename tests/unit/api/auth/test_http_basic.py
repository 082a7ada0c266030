# SPDX-License-Identifier: Apache-2.0
"""``auth_strategy = http_basic``."""

import base64
import collections
import os
import pathlib
from concurrent import futures

import bcrypt
import pytest

from tests.unit.api.cluster import Client, Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http import request_context
from tonnage.api.http.server import ApiServer
from tonnage.capacity import errors
from tonnage.cli.simulation import scheduler_query

PASSWORD = "pass:word é"  # noqa: S105


def line(name: str, password: str = PASSWORD) -> str:
    return f"{name}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n"


def basic(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.fixture
def users(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "htpasswd"
    file.write_text(f"# Who may do everything\n\n{line('jane')}#{line('joe')}{line('zoë')}")
    return file


@pytest.fixture
def anonymous(cluster: Cluster, users: pathlib.Path) -> Client:
    """A client without credentials; tests add headers."""
    # An address that other machines reach is allowed.
    conf = configuration(auth_strategy="http_basic", http_basic_auth_user_file=str(users))
    return Client(app.build(conf, cluster.database, cluster.scheduler, authentication.select(conf, "192.0.2.1")))


@pytest.mark.parametrize("name", ["jane", "zoë"])
@pytest.mark.parametrize(
    ("path", "headers", "project"),
    [("/v3", {}, "demo"), ("/v3", {"X-Project-Id": "there"}, "there"), ("/v3/here", {"X-Project-Id": "there"}, "here")],
)
def test_users_in_the_file_are_administrators(
    anonymous: Client, name: str, path: str, headers: dict[str, str], project: str
) -> None:
    headers = {**basic(name), **headers, "X-Auth-Token": "other:project", "X-User-Id": "other"}
    made = anonymous.simulate_post(f"{path}/volumes", json={"volume": {"size": 1}}, headers=headers)
    assert made.status_code == 202, made.text
    volume = anonymous.simulate_get(f"{path}/volumes/{made.json['volume']['id']}", headers=headers).json["volume"]
    assert (volume["user_id"], volume["os-vol-tenant-attr:tenant_id"]) == (name, project)
    assert anonymous.simulate_get("/v3/scheduler-stats/get_pools", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Auth-Token": "jane:demo"},
        basic("jane", "other"),
        basic("jane", ""),
        basic("jane", "x" * 100),
        basic("jane", "\0"),
        basic("nobody"),
        basic("joe"),
        basic("#joe"),
        basic(""),
        {"Authorization": "Basic"},
        {"Authorization": "Basic not-base64"},
        {"Authorization": "Basic amFuZQ=="},
        {"Authorization": "Bearer jane"},
    ],
)
def test_other_users_are_rejected(anonymous: Client, headers: dict[str, str]) -> None:
    answer = anonymous.simulate_get("/v3/volumes", headers=headers)
    assert answer.status_code == 401
    assert answer.json["unauthorized"] == {"code": 401, "message": request_context.REQUIRED}
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="tonnage", charset="UTF-8"'
    for path, status in (("/", 300), ("/v3", 200), ("/healthcheck", 200)):
        assert anonymous.simulate_get(path, headers=headers).status_code == status


def test_changes_of_the_file_apply_at_once(anonymous: Client, users: pathlib.Path) -> None:
    users.write_text(line("jane", "new"))
    assert anonymous.simulate_get("/v3/volumes", headers=basic("jane")).status_code == 401
    assert anonymous.simulate_get("/v3/volumes", headers=basic("jane", "new")).status_code == 200
    users.unlink()
    assert anonymous.simulate_get("/v3/volumes", headers=basic("jane", "new")).status_code == 401


def test_an_unknown_user_takes_a_check_and_a_remembered_one_none(
    anonymous: Client, users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[bytes] = []
    check = bcrypt.checkpw
    monkeypatch.setattr(bcrypt, "checkpw", lambda *given: checks.append(given[0]) or check(*given))
    for name, password, status in (
        ("nobody", PASSWORD, 401),
        ("jane", "wrong", 401),
        ("jane", PASSWORD, 200),
        ("jane", PASSWORD, 200),
        ("jane", "wrong", 401),
    ):
        assert anonymous.simulate_get("/v3/volumes", headers=basic(name, password)).status_code == status
    assert checks == [each.encode() for each in (PASSWORD, "wrong", PASSWORD, "wrong")]
    users.write_text(line("jane", "new"))
    assert anonymous.simulate_get("/v3/volumes", headers=basic("jane")).status_code == 401
    assert len(checks) == 5


def test_a_flood_of_wrong_passwords_leaves_threads_for_others(anonymous: Client, users: pathlib.Path) -> None:
    users.write_text(f"jane:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(11)).decode()}\n")
    assert anonymous.simulate_get("/v3/volumes", headers=basic("jane")).status_code == 200

    def guess(number: int) -> int:
        return int(anonymous.simulate_get("/v3/volumes", headers=basic("jane", f"wrong {number}")).status_code)

    with futures.ThreadPoolExecutor(32) as threads:
        guesses = [threads.submit(guess, number) for number in range(32)]
        futures.wait(guesses, return_when=futures.FIRST_COMPLETED)
        assert anonymous.simulate_get("/v3/volumes", headers=basic("jane")).status_code == 200
        statuses = collections.Counter(each.result() for each in guesses)
    assert set(statuses) == {401, 503}
    assert statuses[401] <= 16, "at most eight at a time wait for a check"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read"),
        (b"jane:{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=\n", "Only bcrypt digested passwords are supported for jane"),
        (b"\xff\xfe", "is no such file"),
    ],
)
def test_an_unusable_file_is_rejected(tmp_path: pathlib.Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "htpasswd"
    if content is not None:
        file.write_bytes(content)
    conf = configuration(auth_strategy="http_basic", http_basic_auth_user_file=str(file))
    with pytest.raises(errors.ConfigurationError, match=f"http_basic_auth_user_file = {file}") as raised:
        authentication.select(conf, "127.0.0.1")
    assert problem in raised.value.message
    assert "{SHA}" not in raised.value.message


def test_the_command_sends_name_and_password(
    cluster: Cluster, users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OS_USERNAME", "zoë")
    monkeypatch.setenv("OS_PASSWORD", PASSWORD)
    conf = configuration(auth_strategy="http_basic", http_basic_auth_user_file=str(users), osapi_volume_listen_port=0)
    server = ApiServer(
        conf, app.build(conf, cluster.database, cluster.scheduler, authentication.select(conf, "192.0.2.1"))
    )
    server.start()
    question, target = {"requests": [{"volume": {"size": 1}}]}, scheduler_query.QueryTarget(url=server.url)
    try:
        [outlook] = scheduler_query.query(conf, question, target)
        assert outlook.volumes[0].pool is not None
        monkeypatch.setenv("OS_PASSWORD", "wrong")
        with pytest.raises(errors.InvalidInput, match=r"does not take these credentials: .*authentication"):
            scheduler_query.query(conf, question, target)
    finally:
        server.stop()
