# SPDX-License-Identifier: Apache-2.0
"""The question to the schedulers of a Cinder how they would decide a recorded request now, over Cinder's own bus."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from tonnage.capacity.explanation import Explanation
from tonnage.rpc import options
from tonnage.rpc import transport as rpc_transport
from tonnage.rpc.contract import Delivery, Method

#: The topic of Cinder's schedulers.
_TOPIC = "cinder-scheduler"

#: The name of the schedulers in errors.
SERVER = "scheduler of Cinder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request as a scheduler has recorded it, and the largest number of pools in the answer; None for all."""

    request: dict[str, Any]
    most: int | None = None


@dataclass(frozen=True, slots=True)
class PartialExplanation:
    """An explanation with the verdicts on the nearest pools, and the number of all pools."""

    explanation: Explanation
    pools: int


#: The method of Tonnage's schedulers in Cinder's place, beside those of Cinder.
EXPLAIN = Method(
    "explain",
    Question,
    PartialExplanation,
    "the decision that a recorded request would get now; no side effect",
    Delivery.SINGLE_CALL,
)


def ask(conf: cfg.ConfigOpts, request: Mapping[str, Any], exchange: str, most: int | None) -> PartialExplanation:
    """Ask a scheduler. ``exchange`` is the option ``control_exchange`` of its Cinder.

    Raises :class:`~tonnage.capacity.errors.Unavailable` if none answers, and the errors of the scheduler.
    """
    options.register(conf)
    conf.set_override("control_exchange", exchange)
    transport = rpc_transport.create(conf)
    try:
        peer = rpc_transport.Peer(transport, _TOPIC, SERVER)
        return peer.call(EXPLAIN, Question(request=dict(request), most=most))
    finally:
        transport.cleanup()
