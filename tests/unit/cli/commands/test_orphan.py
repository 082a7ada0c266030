# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage orphan``: volumes without a claim, and their deletion."""

import json

import pytest
import sqlalchemy as sa

from tests.unit.cli import command_runs
from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.capacity.request import Provisioning
from tonnage.ledger import models

POOL = f"{BACKEND}#p0"


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    """A ledger whose last listing has an orphan of 7 GiB."""
    ledger.conf.transport_url = "kombu+memory://"
    ledger.world.made(3)
    ledger.world.pools["p0"].volumes["of-others"] = (7, Provisioning.THIN)
    ledger.world.registration.listings([ledger.world.agent.listing()])
    return ledger


def test_orphans_are_listed_with_their_pool_and_size(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = ledger.json("orphan list")
    assert {key: row[key] for key in ("pool", "name", "size_gb")} == {"pool": POOL, "name": "of-others", "size_gb": 7}
    assert json.loads(ledger.run("orphan list --json"))[0]["name"] == "of-others"


def test_a_listing_of_before_is_told_on_standard_error(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    """The message bus of tonnage-standalone cannot be reached, so no new listing is asked for."""
    assert command_runs.run(ledger.program, ["orphan", "list"], ledger.conf) == 0
    printed = capsys.readouterr()
    assert f"{BACKEND} has sent no listing now: the last one is 0 s old\n" in printed.err
    assert "has sent no listing" not in printed.out


def test_a_purge_claims_the_deletion_and_counts_nothing(ledger: Ledger) -> None:
    allocated = ledger.world.rows("SELECT allocated_capacity_gb FROM pools ORDER BY name")
    printed = ledger.run(f"orphan purge {POOL} of-others --yes")
    assert printed.startswith(f"of-others in {POOL} is to be deleted (claim ")
    [(claim_id, verb)] = ledger.world.rows("SELECT id, verb FROM claims WHERE state = 'pending'")
    assert verb == "purge"
    assert claim_id in printed
    assert ledger.world.rows("SELECT allocated_capacity_gb FROM pools ORDER BY name") == allocated


def test_only_an_orphan_is_purged(ledger: Ledger) -> None:
    [(volume_id,)] = ledger.world.rows("SELECT id FROM volumes")
    for name, message in ((volume_id, "is a volume in .*: delete the volume"), ("something", "is no orphan")):
        with pytest.raises(errors.TonnageError, match=message):
            ledger.run(f"orphan purge {POOL} {name} --yes")
    with pytest.raises(errors.NotFound):
        ledger.run("orphan purge h@b#p of-others --yes")
    assert ledger.world.rows("SELECT id FROM claims WHERE state = 'pending'") == []


def test_a_purge_has_to_be_confirmed(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ledger.run(f"orphan purge {POOL} of-others")
    assert ended.value.code == 2
    assert "--yes" in capsys.readouterr().err


def test_without_orphans_the_list_says_so(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    with ledger.engine.begin() as connection:
        connection.execute(sa.delete(models.Discrepancy))
    assert command_runs.run(ledger.program, ["orphan", "list"], ledger.conf) == 0
    printed = capsys.readouterr()
    assert "The last listings had no orphans" in printed.out + printed.err
