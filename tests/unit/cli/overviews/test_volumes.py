# SPDX-License-Identifier: Apache-2.0
"""``tonnage volumes``, ``types`` and ``claims``."""

import pytest
import sqlalchemy as sa

from tests.unit.cli.overviews.overview_ledger import Ledger, gib
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models


def test_volumes_are_selected_by_pool_status_project_and_type(ledger: Ledger) -> None:
    ledger.world.create(1, 2, 3)
    ledger.world.settle()
    rows = ledger.json("volumes")
    assert sorted(row["size_bytes"] for row in rows) == [gib(1), gib(2), gib(3)]
    assert {row["status"] for row in rows} == {"available"}
    pool, project = rows[0]["pool"], rows[0]["project_id"]
    assert ledger.json(f"volumes --pool {pool}") == [row for row in rows if row["pool"] == pool]
    assert ledger.json(f"volumes --pool {BACKEND} --project {project} --status available") == rows
    for nothing in ("--status error", "--project another"):
        assert ledger.run(f"volumes {nothing}") == "There is no such volume\n"


def test_types_have_the_sums_of_their_volumes(ledger: Ledger) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.insert(models.VolumeType), [{"id": "t", "name": "gold", "is_public": True}])
    ledger.world.create(2, 3)
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Volume).values(volume_type_id="t"))
    sums = {row["name"]: (row["volumes"], row["size_bytes"]) for row in ledger.json("types")}
    assert sums == {"__DEFAULT__": (0, 0), "gold": (2, gib(5))}


def test_an_operation_of_a_backend_that_is_down_names_it_and_the_ways_out(ledger: Ledger) -> None:
    [made] = ledger.world.create(4)
    ledger.world.made(1)
    [waiting] = ledger.world.create(2)
    assert {row["waits_for"] for line in ("volumes", "claims") for row in ledger.json(line)} == {None}
    assert "waits for" not in ledger.run("volumes")
    with ledger.engine.begin() as connection:
        values = {"notice": "stopped", "notice_text": "", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    volumes = {row["id"]: row["waits_for"] for row in ledger.json("volumes")}
    assert [volume_id for volume_id, text in volumes.items() if text] == [waiting.volume_id]
    text = volumes[waiting.volume_id]
    assert text.startswith(f"backend {BACKEND} (its agent stopped at 20")
    assert text.endswith(
        f"): start its agent, and see that enabled_backends names backend on host; if it never comes back, "
        f"'tonnage-manage backend remove {BACKEND} --volumes-are-lost' gives its volumes up"
    )
    assert [(row["volume_id"], row["waits_for"]) for row in ledger.json("claims")] == [(waiting.volume_id, text)]
    assert "waits for" in ledger.run("volumes")
    assert "waits for" in ledger.run("claims")
    assert volumes[made.volume_id] is None
    assert ledger.json(f"pool {waiting.pool}")["claims"][-1]["waits_for"] == text


@pytest.mark.parametrize(
    ("notice", "text", "wait"),
    [
        (
            "refused",
            "the ledger counts volumes in pool a: mount the file system with the volumes",
            "(its agent is refused: the ledger counts volumes in pool a: mount the file system with the volumes)",
        ),
        (
            "failing",
            "No such file or directory: '/srv'",
            "(its agent cannot report: No such file or directory: '/srv'): its agent goes on when that is corrected; "
            f"if it never comes back, 'tonnage-manage backend remove {BACKEND} --volumes-are-lost' gives its volumes "
            "up",
        ),
    ],
)
def test_the_ways_out_of_a_waiting_operation_are_those_of_the_notice(
    ledger: Ledger, notice: str, text: str, wait: str
) -> None:
    ledger.world.create(2)
    with ledger.engine.begin() as connection:
        values = {"notice": notice, "notice_text": text, "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    assert [row["waits_for"] for row in ledger.json("claims")] == [f"backend {BACKEND} {wait}"]


def test_a_volume_in_error_waits_for_no_purge_of_its_copies(ledger: Ledger) -> None:
    [waiting] = ledger.world.create(2)
    [claim] = ledger.json("claims")
    with ledger.engine.begin() as connection:
        values = {"notice": "stopped", "notice_text": "", "notice_at": models.utcnow()}
        connection.execute(sa.update(models.Backend).values(values))
    ledger.world.outcome_handler.abandon([claim["id"]])
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(models.Volume).values(status="error"))
    assert {(row["verb"], row["waits_for"]) for row in ledger.json("claims")} == {("create", None), ("purge", None)}
    assert [(row["id"], row["waits_for"]) for row in ledger.json("volumes")] == [(waiting.volume_id, None)]


def test_an_empty_ledger_is_said_to_be_empty(ledger: Ledger) -> None:
    assert ledger.run("volumes") == "There is no volume\n"
    assert ledger.run("claims") == "No operation is under way\n"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("volumes --pool h@b", "h@b"),
        ("volumes --pool h@b#p", "h@b#p"),
        ("volumes --type gold", "volume type gold"),
    ],
)
def test_a_name_that_the_ledger_does_not_know_is_an_error(ledger: Ledger, line: str, named: str) -> None:
    with pytest.raises(errors.NotFound, match=f"^{named} could not be found"):
        ledger.run(line)
