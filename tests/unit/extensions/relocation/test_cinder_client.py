# SPDX-License-Identifier: Apache-2.0
"""The client of Cinder's API."""

import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import exceptions

from tests.unit.extensions.relocation.cloud_api import CLOUD, PROJECT, A, B, CloudApi, CloudSession, CloudWorld
from tonnage.capacity import errors
from tonnage.extensions.relocation import cinder_client
from tonnage.extensions.relocation.cinder_client import CinderClient


@pytest.fixture
def api() -> CloudApi:
    return CloudApi({A: 100, B: 100})


def client(api: CloudApi) -> CinderClient:
    return CloudWorld(api).client


def test_volumes_of_all_pages_and_projects_are_read(api: CloudApi) -> None:
    ids = [api.add(A, 1) for _ in range(5)]
    api.page = 2
    assert [volume.id for volume in client(api).volumes()] == ids
    assert [path for _, path, _ in api.requests] == ["/volumes/detail"] * 3
    [volume] = [volume for volume in client(api).volumes() if volume.id == ids[0]]
    assert (volume.pool, volume.size, volume.migration_status, volume.project_id) == (A, 1, None, PROJECT)
    assert client(api).cloud == CLOUD


def test_a_list_begins_again_if_the_last_volume_of_a_page_is_deleted(
    api: CloudApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [api.add(A, 1) for _ in range(5)]
    api.page, calls = 2, iter(range(100))
    answer = api.answer

    def answer_and_delete(*arguments: Any) -> Any:
        result = answer(*arguments)
        if next(calls) == 0:
            del api.volumes[ids[1]]
        return result

    monkeypatch.setattr(api, "answer", answer_and_delete)
    assert [volume.id for volume in client(api).volumes()] == [ids[0], *ids[2:]]


def test_a_volume_of_a_cluster_is_in_the_pool_of_the_cluster(api: CloudApi) -> None:
    volume_id = api.add("h@a#p", 1, cluster_name="c@a#p")
    volume = client(api).volume(volume_id)
    assert volume is not None
    assert (volume.pool, volume.changed_at) == ("c@a#p", api.now - datetime.timedelta(hours=1))
    assert client(api).volume("gone") is None
    waiting = client(api).volume(api.add(None, 1))
    assert waiting is not None
    assert waiting.pool is None


def test_orders_name_the_pool_or_the_cluster(api: CloudApi) -> None:
    volume_id = api.add(A, 1)
    client(api).migrate(volume_id, B, is_cluster=False, lock=True)
    assert api.requests[-1][2] == {"os-migrate_volume": {"host": B, "force_host_copy": False, "lock_volume": True}}
    api.pass_time()
    client(api).migrate(volume_id, A, is_cluster=True, lock=False)
    assert api.requests[-1][2]["os-migrate_volume"]["cluster"] == A
    with pytest.raises(errors.Conflict, match=f"Cinder refuses: Volume {volume_id} status must be available"):
        client(api).migrate(volume_id, A, is_cluster=False, lock=True)


def test_an_account_without_the_pools_of_volumes_is_not_enough(api: CloudApi) -> None:
    del api.volumes[api.add(A, 1)]["os-vol-host-attr:host"]
    with pytest.raises(errors.ConfigurationError, match="take one with the role admin"):
        client(api).volumes()


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (503, errors.Unavailable, "answers 503: it is down"),
        (
            403,
            errors.ConfigurationError,
            "Cinder does not allow the account GET /scheduler-stats/get_pools: it is down",
        ),
        (401, errors.ConfigurationError, "Cinder does not allow the account"),
        (406, errors.ConfigurationError, "does not have the microversion 3.61"),
        (404, errors.Unavailable, "get_pools.* answers 404: it is down"),
        (413, errors.Unavailable, "get_pools.* answers 413: it is down"),
    ],
)
def test_errors_have_the_message_of_cinder(
    api: CloudApi, status: int, error: type[errors.TonnageError], text: str
) -> None:
    api.status = status
    with pytest.raises(error, match=text):
        client(api).pools()


def test_only_cinder_itself_tells_that_a_volume_is_gone(api: CloudApi) -> None:
    volume_id = api.add(A, 1)
    assert client(api).volume("gone") is None
    api.status = 404
    with pytest.raises(errors.Unavailable, match=f"/volumes/{volume_id} answers 404: it is down"):
        client(api).volume(volume_id)
    with pytest.raises(errors.Unavailable, match="/action answers 404: it is down"):
        client(api).migrate(volume_id, B, is_cluster=False, lock=True)
    api.status = 413
    with pytest.raises(errors.Conflict, match="Cinder refuses: it is down"):
        client(api).migrate(volume_id, B, is_cluster=False, lock=True)


def test_a_list_or_a_figure_that_is_missing_is_a_fault_of_the_moment(
    api: CloudApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "answer", lambda *_: (404, {"itemNotFound": {"code": 404, "message": "no resource"}}))
    cinder = client(api)
    for read in (cinder.pools, cinder.services, cinder.volumes, cinder.types, cinder.volumes_with_snapshots):
        with pytest.raises(errors.Unavailable, match="answers 404: no resource"):
            read()


def test_answers_of_other_programs_are_errors(api: CloudApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in ({"else": 1}, {"pools": [{}], "volumes": 1}, {"volumes": [{"id": 1}]}):
        monkeypatch.setattr(api, "answer", lambda *_, body=body: (200, body))
        for read in (client(api).pools, client(api).volumes):
            with pytest.raises(errors.Unavailable, match="is not one of Cinder"):
                read()


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (exceptions.Unauthorized("no"), errors.ConfigurationError, "Keystone does not accept the account: no"),
        (exceptions.ConnectFailure("no route"), errors.Unavailable, f"{CLOUD}/v3/x does not answer: no route"),
    ],
)
def test_failures_of_the_session_are_errors(failure: Exception, error: type[errors.TonnageError], text: str) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    session: Any = SimpleNamespace(request=fail)
    with pytest.raises(error, match=text):
        CinderClient(session, f"{CLOUD}/v3/x").pools()


def test_an_answer_that_is_no_json_is_an_error(api: CloudApi) -> None:
    def request(*_: Any, **__: Any) -> Any:
        def fail() -> None:
            raise ValueError("no JSON")

        return SimpleNamespace(status_code=200, content=b"<html>", json=fail)

    session: Any = SimpleNamespace(request=request)
    with pytest.raises(errors.Unavailable, match="is no JSON"):
        CinderClient(session, CLOUD).services()


def test_an_error_without_a_message_has_the_reason() -> None:
    answer = SimpleNamespace(status_code=500, content=b"x", json=lambda: [], reason="Internal Server Error")
    session: Any = SimpleNamespace(request=lambda *_, **__: answer)
    with pytest.raises(errors.Unavailable, match="answers 500: Internal Server Error"):
        CinderClient(session, CLOUD).services()


def test_times_are_read_in_utc() -> None:
    noon = datetime.datetime.fromisoformat("2030-01-01T12:00:00")
    assert cinder_client.read_time("2030-01-01T12:00:00.000000") == noon
    assert cinder_client.read_time("2030-01-01T13:00:00+01:00") == noon
    assert cinder_client.read_time("never") is cinder_client.read_time(None) is None


def test_a_session_is_asked_with_a_microversion(api: CloudApi) -> None:
    session: Any = CloudSession(api)
    assert [pool.name for pool in CinderClient(session, f"{CLOUD}/v3/{PROJECT}").pools()] == [A, B]
    assert [service.host for service in CinderClient(session, f"{CLOUD}/v3/{PROJECT}").services()] == ["h@a", "h@b"]
