# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage db copy``: the ledger in another database, and back."""

import io
import pathlib

import pytest

from tests.unit.cli.overviews.overview_ledger import Ledger
from tonnage.capacity import errors


@pytest.mark.parametrize("from_input", [False, True])
def test_a_copied_ledger_is_used_no_more_until_the_copy_is_undone(
    ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, from_input: bool
) -> None:
    url = f"sqlite:///{tmp_path}/copy.sqlite"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{url}\n"))
    printed = ledger.run(f"db copy --to {'-' if from_input else url}")
    assert "pools: 2 row(s)\n" in printed
    assert "set [database] connection of all schedulers and APIs to it\n" in printed
    with pytest.raises(errors.ConfigurationError, match="the ledger was copied from this database to sqlite:"):
        ledger.run("ledger repair")
    assert ledger.run("db copy --undo") == "The ledger in this database may be used again\n"
    assert ledger.run("ledger repair") == "There is nothing to mend\n"
