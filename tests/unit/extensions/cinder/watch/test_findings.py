# SPDX-License-Identifier: Apache-2.0
"""The identity of findings, and the words that the record has of them."""

import pytest

from tonnage.extensions.cinder.ledger.tables import CinderFinding
from tonnage.extensions.cinder.watch.findings import Category, Cause, Finding, Gap
from tonnage.ledger import models


def finding(text: str = "t", code: str = "limit", subject: str = "h@b#p") -> Finding:
    return Finding(category=Category.OVER_COMMITMENT, subject=subject, code=code, text=text)


def test_a_finding_stays_the_same_while_its_figures_change() -> None:
    """The record then has one row, with the last text."""
    assert finding("12 of 10 GiB").key == finding("13 of 10 GiB").key == ("over_commitment", "h@b#p", "limit")
    assert len({finding(code=code, subject=subject).key for code in "ab" for subject in "cd"}) == 4


def test_the_columns_have_room_for_each_category() -> None:
    length = getattr(models.table(CinderFinding).c.category.type, "length", None)
    assert length is not None
    assert max(map(len, Category)) <= length


@pytest.mark.parametrize("cause", Cause)
def test_a_gap_of_unknown_size_has_dropped_nothing_for_certain(cause: Cause) -> None:
    assert Gap(cause).dropped == 0
    assert Gap(cause, 7) != Gap(cause)


def test_findings_of_different_pools_share_no_figures() -> None:
    assert finding().numbers is not finding(subject="h@b#q").numbers
    assert finding().volumes == ()
