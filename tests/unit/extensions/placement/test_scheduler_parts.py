# SPDX-License-Identifier: Apache-2.0
"""The reading of usage before decisions."""

import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.unit.quotas.test_reservations import Elsewhere
from tests.unit.scheduler.world import BACKEND
from tonnage.capacity import errors
from tonnage.extensions.placement.scheduler_parts import UsageReading
from tonnage.quotas.options import Settings as Quotas
from tonnage.rpc.messages import CreateVolume, ManageVolume, SimulatedRequest, WhatIf
from tonnage.scheduler.configuration.settings import Settings
from tonnage.scheduler.extension_parts import PartsBuilder, SchedulerContext, SchedulerParts
from tonnage.scheduler.manager import SchedulerManager


@pytest.fixture
def elsewhere() -> Elsewhere:
    return Elsewhere()


@pytest.fixture
def settings(settings: Settings, elsewhere: Elsewhere) -> Settings:
    return replace(settings, quotas=Quotas(external_usage=elsewhere))


@pytest.fixture
def builders(elsewhere: Elsewhere) -> Mapping[str, PartsBuilder]:
    def build(context: SchedulerContext) -> SchedulerParts:
        return SchedulerParts(preparations=[UsageReading(context.database, elsewhere)])

    return {"placement": build}


def test_it_is_read_before_anything_is_decided(core: SchedulerManager, elsewhere: Elsewhere) -> None:
    message = CreateVolume(request_id="r", volume_id=str(uuid.uuid4()), size_gb=1, project_id="p")
    core.explain(message)
    core.what_if(WhatIf(requests=[SimulatedRequest(create=message)]))
    core.handle_batch([message])
    manage = ManageVolume(
        request_id="m", volume_id=str(uuid.uuid4()), pool=f"{BACKEND}#none", reference="x", project_id="q"
    )
    with pytest.raises(errors.TonnageError):
        core.manage(manage)
    assert core.place(replace(message, request_id="r3", volume_id=str(uuid.uuid4()))).pool == f"{BACKEND}#p0"
    assert elsewhere.asked == [["p"], ["p"], ["p"], ["q"], ["p"]]
