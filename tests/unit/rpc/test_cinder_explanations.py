# SPDX-License-Identifier: Apache-2.0
"""The question to a scheduler in Cinder's place, on a bus within the process."""

from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from tests.unit.rpc import bus as memory_bus
from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation, PoolVerdict
from tonnage.rpc import cinder_explanations, transport
from tonnage.rpc.cinder_explanations import PartialExplanation, Question
from tonnage.rpc.handlers import Endpoint, RpcHandler

EXPLANATION = PartialExplanation(Explanation("create", "h@b#p", "1 GiB in h@b#p", (PoolVerdict("h@b#p"),), ()), 12)


class Schedulers:
    """Schedulers in Cinder's place. ``questions`` are those that have arrived."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.error: errors.TonnageError | None = None

    def explain(self, question: Question) -> PartialExplanation:
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        return EXPLANATION


@pytest.fixture
def schedulers() -> Iterator[tuple[cfg.ConfigOpts, Schedulers]]:
    """A configuration with the address of a bus, and schedulers that listen on the exchange ``volumes``."""
    with memory_bus.memory_transport(response_timeout=30) as bus:
        conf: cfg.ConfigOpts = bus.conf
        conf.set_override("control_exchange", "volumes")
        schedulers = Schedulers()
        handler = RpcHandler(cinder_explanations.EXPLAIN, schedulers.explain)
        endpoint = Endpoint(cinder_explanations.SERVER, [cinder_explanations.EXPLAIN], [handler])
        server = transport.server(transport.create(conf), "cinder-scheduler", "one", endpoint)
        server.start()
        conf.clear_override("control_exchange")
        yield conf, schedulers
        server.stop()
        server.wait()


def test_the_answer_and_the_refusal_of_a_scheduler_reach_the_caller(
    schedulers: tuple[cfg.ConfigOpts, Schedulers],
) -> None:
    conf, cinder = schedulers
    request: dict[str, Any] = {"volume_properties": {"size": 1}}
    assert cinder_explanations.ask(conf, request, "volumes", 3) == EXPLANATION
    assert cinder.questions == [Question(request=request, most=3)]
    cinder.error = errors.NotFound("no such type")
    with pytest.raises(errors.NotFound, match=r"^no such type$"):
        cinder_explanations.ask(conf, request, "volumes", None)
