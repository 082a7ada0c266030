# SPDX-License-Identifier: Apache-2.0
"""The preparations of an extension: requests are decided as they come out of them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager
from tonnage.scheduler.requests.placement_requests import Move, Retry
from tonnage.scheduler.requests.preparation import Preparation


class Doubling(Preparation):
    """Doubles the size of volumes, and raises an error for a size without a double."""

    def prepare(self, messages: Sequence[Any]) -> Sequence[Any]:
        if any(message.size_gb > 10 for message in messages):
            raise errors.Unavailable("the other service does not answer")
        return [replace(message, size_gb=2 * message.size_gb) for message in messages]


@pytest.fixture
def builders() -> Mapping[str, PartsBuilder]:
    """An extension with two preparations, one of which has the methods of the base class alone."""
    return {"example": lambda context: SchedulerParts(preparations=[Preparation(), Doubling()])}


def request(size: int) -> CreateVolume:
    return CreateVolume(request_id=uuid.uuid4().hex, volume_id=str(uuid.uuid4()), size_gb=size, project_id="p")


def sizes(ledger: Database) -> list[int]:
    with ledger.reading() as session:
        return sorted(session.scalars(sa.select(models.Volume.size_gb)))


def test_a_request_is_decided_as_it_was_prepared(core: SchedulerManager, ledger: Database) -> None:
    assert core.place(request(3)).pool == f"{BACKEND}#p0"
    assert sizes(ledger) == [6]


def test_an_error_of_a_preparation_is_the_answer_to_all_requests_of_the_batch(
    core: SchedulerManager, ledger: Database
) -> None:
    with pytest.raises(errors.Unavailable, match="the other service does not answer"):
        core.handle_batch([request(3), request(11)])
    assert sizes(ledger) == []


def test_an_explanation_is_that_of_the_prepared_request(core: SchedulerManager) -> None:
    assert core.explain(request(3)).request.startswith("6 GiB")


@pytest.mark.parametrize("work", [Retry("volume-1"), Move("request-1", "volume-1")])
def test_work_that_nobody_waits_for_is_submitted_at_once_unless_a_preparation_has_its_own_way(work: Any) -> None:
    submitted: list[Retry | Move] = []
    submit: Callable[[Retry | Move], object] = submitted.append
    Doubling().prepare_later(work, submit)
    assert submitted == [work]
