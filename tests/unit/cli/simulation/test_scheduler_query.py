# SPDX-License-Identifier: Apache-2.0
"""Tests of queries to schedulers."""

import pathlib
from typing import Any

import pytest
from oslo_config import cfg
from oslo_log import log as logging

from tonnage.api import options as api_options
from tonnage.capacity import errors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.reports.hypothetical_pools import Changes
from tonnage.cli.rest import api_client
from tonnage.cli.simulation import scheduler_query
from tonnage.cli.simulation.scheduler_query import QueryTarget
from tonnage.rpc import options as rpc_options
from tonnage.rpc.messages import CreateVolume


def creates(*requests: dict[str, Any], default_type: str | None = None) -> list[CreateVolume]:
    message = scheduler_query.as_message({"requests": list(requests)}, "p", default_type)
    found: list[CreateVolume] = []
    for asked in message.requests:
        found += asked.group.volumes if asked.group is not None else [asked.create] if asked.create else []
    return found


def test_a_question_is_converted_to_an_rpc_message() -> None:
    given = {
        "requests": [{"volume": {"size": "3"}}, {"extend": {"volume_id": "v", "new_size": 9}}],
        "changes": {"ratios": {"h@b": 2}, "lost": ["h@c"], "calculation": "standard", "added": [{"pool_name": "x"}]},
    }
    message = scheduler_query.as_message(given, "p", None)
    assert message.changes == Changes(
        ratios={"h@b": 2.0}, lost=("h@c",), calculation=Calculation.STANDARD, added=({"pool_name": "x"},)
    )
    assert message.detail is False
    first, second = message.requests
    assert first.create is not None
    assert second.extend is not None
    assert (first.create.size_gb, first.create.project_id, second.extend.new_size_gb) == (3, "p", 9)
    # Random choices depend on the id, and schedulers accept at most 64 characters.
    assert first.create.request_id != second.extend.request_id
    assert len(first.create.request_id) <= 64


def test_questions_about_existing_volumes() -> None:
    given = [
        {"migrate": {"volume_id": "v", "host": "h@b"}},
        {"retype": {"volume_id": "v", "new_type": "gold"}},
        {"retype": {"volume_id": "v", "new_type": "gold", "migration_policy": "on-demand"}},
    ]
    move, stay, either = scheduler_query.as_message({"requests": given}, "p", None).requests
    assert move.migrate is not None
    assert stay.retype is not None
    assert either.retype is not None
    assert (move.migrate.volume_id, move.migrate.destination) == ("v", "h@b")
    assert (stay.retype.volume_type, stay.retype.migration_policy) == ("gold", "never")
    assert either.retype.migration_policy == "on-demand"


def test_types_zones_and_hints_of_volumes() -> None:
    one, other = creates(
        {"volume": {"size": 1, "availability_zone": "z", "source_volid": "s"}, "scheduler_hints": {"a": "b"}},
        {"volume": {"size": 1, "volume_type": "gold"}},
        default_type="plain",
    )
    assert (one.volume_type, one.availability_zone, one.source_volume_id, one.hints) == ("plain", "z", "s", {"a": "b"})
    assert other.volume_type == "gold"


def test_members_of_a_group_can_refer_to_each_other_by_index() -> None:
    first, second = creates({"volumes": [{"size": 1}, {"size": 1, "scheduler_hints": {"same_host": [0]}}]})
    assert first.request_id == second.request_id
    assert second.hints == {"same_host": [first.volume_id]}


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"requests": []}, "requests"),
        ({"requests": [{}]}, "requests[0] takes one of volume, volumes, extend, migrate, retype"),
        ({"requests": [{"volume": {}, "extend": {}}]}, "requests[0] takes one of volume, volumes, extend, migrate,"),
        ({"requests": [{"volume": {"size": 0}}]}, "requests[0]: Invalid input for volume.size: 0"),
        ({"requests": [{"volume": {"source_volid": "s"}}]}, "requests[0]: missing required field size"),
        ({"requests": [{"volume": {"size": 1}}], "changes": {"ratio": 1}}, "unknown field ratio"),
        ({"requests": [{"volumes": [{"size": 1, "scheduler_hints": {"same_host": [7]}}]}]}, "names 7"),
    ],
)
def test_errors_in_a_question_name_the_field(question: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        scheduler_query.as_message(question, "p", None)
    assert message in caught.value.message


def unconfigured() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    rpc_options.register(conf)
    api_options.register(conf)
    conf([], project="tonnage", default_config_files=[], default_config_dirs=[])
    return conf


@pytest.mark.parametrize(
    ("variable", "destination"),
    [("", "http://127.0.0.1:8776"), ("http://tonnage:80", "http://tonnage:80")],
    ids=["default", "environment"],
)
def test_without_a_configuration_a_rest_api_is_asked(
    monkeypatch: pytest.MonkeyPatch, variable: str, destination: str
) -> None:
    monkeypatch.setenv("TONNAGE_URL", variable)
    urls: list[str] = []

    def post(client: api_client.ApiClient, path: str, body: object, key: str) -> list[object]:
        urls.append(client._url)
        return []

    monkeypatch.setattr(api_client.ApiClient, "post", post)
    assert scheduler_query.query(unconfigured(), {"requests": []}, QueryTarget(project="p")) == []
    assert urls == [destination]


def test_an_unreachable_bus_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text("[DEFAULT]\ntransport_url = rabbit://me:secret@one:5673,me:secret@two/\n")
    monkeypatch.setenv("TONNAGE_URL", "http://tonnage:80")
    conf = unconfigured()
    conf(["--config-file", str(file)], project="tonnage")

    def fail(self: object, method: object, question: object) -> None:
        raise errors.Unavailable("nobody answers")

    monkeypatch.setattr(scheduler_query.SchedulerClient, "call", fail)
    with pytest.raises(errors.Unavailable) as caught:
        scheduler_query.query(conf, {"requests": [{"volume": {"size": 1}}]}, QueryTarget(project="p"))
    assert caught.value.message == (
        "nobody answers (asked over the message bus of option transport_url, one:5673, two:its usual port; with --url "
        "the REST API is asked)"
    )
