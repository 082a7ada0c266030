# SPDX-License-Identifier: Apache-2.0
"""The rows of commands by the REST API: they are those of the ledger."""

import json
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.api.cluster import BACKEND
from tests.unit.cli import command_runs
from tests.unit.cli.conftest import RestApi
from tonnage.capacity import errors
from tonnage.cli import tonnage
from tonnage.ledger.db import options as database_options
from tonnage.ledger.inventory import overviews

#: Figures that differ between two readings of the same state.
AGES = ("figures_age_seconds", "silence_seconds", "age_seconds", "silence_s")


def shown(line: str, api: RestApi, capsys: pytest.CaptureFixture[str], *, by_rest: bool) -> Any:
    """Return the JSON of a command, which asks the API or reads its database."""
    options = {option.dest: option.default for option in database_options.OPTIONS}
    options["connection"] = str(api.cluster.database.engine.url)
    conf = SimpleNamespace(database=SimpleNamespace(**options), service_down_time=60, enabled_extensions=[])
    words = [*line.split(), "-f", "json", *(("--url", api.url) if by_rest else ())]
    assert command_runs.run(tonnage.program(), words, conf) == 0
    answer = json.loads(capsys.readouterr().out)
    for row in answer if isinstance(answer, list) else [answer]:
        for key in AGES:
            row.pop(key, None)
    return answer


@pytest.mark.parametrize(
    "line",
    [
        "pools",
        f"pools --backend {BACKEND}",
        "backends",
        "volumes",
        f"volumes --pool {BACKEND} --status available --type __DEFAULT__",
        "volumes --project nobody",
        "types",
        "claims",
        "refusals",
        f"refusals --pool {BACKEND} --rows 1",
        "refusals --summary",
    ],
)
def test_the_rows_are_those_of_the_ledger(line: str, rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(line, rest_api, capsys, by_rest=True) == shown(line, rest_api, capsys, by_rest=False)


def test_a_pool_is_that_of_the_ledger(rest_api: RestApi, capsys: pytest.CaptureFixture[str]) -> None:
    of_rest, of_ledger = (shown("pool thin", rest_api, capsys, by_rest=by_rest) for by_rest in (True, False))
    for answer in (of_rest, of_ledger):
        for row in answer["sharing"]:
            for key in AGES:
                row.pop(key)
    assert of_rest == of_ledger
    assert rest_api.volume_id in {row["id"] for row in of_rest["volumes"]}


def test_the_decisions_on_a_volume_are_those_of_the_ledger(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str]
) -> None:
    of_rest = shown(f"why {rest_api.volume_id}", rest_api, capsys, by_rest=True)
    of_ledger = shown(f"why {rest_api.volume_id} --offline", rest_api, capsys, by_rest=False)
    now = {"pool_now", "decision_now", "pools", "claims"}
    past = [{key: answer[key] for key in answer.keys() - now} for answer in (of_rest, of_ledger)]
    assert past[0] == past[1]
    claims = [[(row["id"], row["verb"]) for row in answer["claims"]] for answer in (of_rest, of_ledger)]
    assert claims[0] == claims[1] != []
    assert {row["pool"] for row in of_rest["pools"]} == {f"{BACKEND}#thin", f"{BACKEND}#thick"}


def test_all_pages_of_volumes_are_read(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = uuid.uuid4().hex
    made = [rest_api.client.create(1, f"/v3/{project}/volumes")["id"] for _ in range(3)]
    monkeypatch.setattr(overviews, "PAGE_SIZE", 2)
    rows = shown(f"volumes --project {project}", rest_api, capsys, by_rest=True)
    assert [row["id"] for row in rows] == made


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("pools --backend h@b", "backend h@b could not be found"),
        ("volumes --pool h@b#p", "h@b#p could not be found"),
        ("volumes --type nothing", "volume type nothing could not be found"),
        ("pool nothing", "pool nothing could not be found"),
        ("why nothing", "nothing"),
    ],
)
def test_a_missing_name_is_an_error(
    line: str, problem: str, rest_api: RestApi, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(errors.NotFound, match=problem):
        shown(line, rest_api, capsys, by_rest=True)


def test_rows_of_another_release_are_one_line(
    rest_api: RestApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overviews, "as_object", lambda row: {"name": row.name})
    with pytest.raises(errors.Unavailable, match=r"rows of types that this command cannot read .* the same release"):
        shown("types", rest_api, capsys, by_rest=True)
