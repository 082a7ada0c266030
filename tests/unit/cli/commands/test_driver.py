# SPDX-License-Identifier: Apache-2.0
"""``tonnage-manage driver audit``: the findings about the reports of drivers."""

import json

import pytest

from tests.unit.cli.overviews.overview_ledger import Ledger
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors


def test_reports_that_keep_to_the_definitions_have_status_0(ledger: Ledger) -> None:
    answer = json.loads(ledger.run("driver audit --json"))
    assert (answer["clean"], answer["findings"]) == (True, [])
    assert [backend["name"] for backend in answer["backends"]] == [BACKEND]
    assert ledger.run("driver audit").endswith("1 backend(s) audited: their reports keep to the definitions\n")


def test_an_unknown_backend_is_an_error(ledger: Ledger) -> None:
    with pytest.raises(errors.NotFound, match=r"^backend h@b could not be found: no agent has introduced it; "):
        ledger.run("driver audit --backend h@b")
