# SPDX-License-Identifier: Apache-2.0
"""Where the instances run that hints name, found out before anything is decided.

Whoever asks waits in a thread of its own: decisions do not, and neither do requests without the hint. Nothing is
remembered, as instances move.
"""

import logging
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from dataclasses import fields
from dataclasses import replace
from typing import Any

from tonnage.capacity.request import Locality
from tonnage.filters import instance_locality
from tonnage.ledger.database import Database
from tonnage.rpc.messages import CreateGroup
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler import resolution
from tonnage.scheduler.nova import Nova
from tonnage.scheduler.resolution import LocalVolume
from tonnage.scheduler.resolution import Move
from tonnage.scheduler.resolution import Retry

LOG = logging.getLogger(__name__)

#: How many instances Nova is asked about at a time.
_AT_ONCE = 8

#: How many requests may wait for Nova. The server of the RPC has 64 threads, and the others need some as well.
_WAITING = 32

_FIELDS = [field.name for field in fields(CreateVolume)]


class Localities:
    """Asks about instances, if there is anybody to ask. Safe to use from many threads."""

    def __init__(self, database: Database, nova: Nova | None = None) -> None:
        self._database = database
        self._nova = nova
        self._patience = 0.0 if nova is None else nova.timeout
        self._seats = threading.BoundedSemaphore(_WAITING)
        self._asking = futures.ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="nova")
        self._retrying = futures.ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="retry")

    def located(self, messages: Sequence[Any]) -> list[Any]:
        """Return messages in whose new volumes it is told where the instances run that their hints name.

        It takes at most as long as Nova is given, however many there are.
        """
        volumes = [volume for message in messages for volume in _new_volumes(message)]
        found = self._find({instance for volume in volumes if (instance := instance_locality.named(volume.hints))})
        return [_told(message, found) for message in messages] if found else list(messages)

    def locate_later(self, work: Retry | Move, submit: Callable[[Retry | Move], object]) -> None:
        """Submit what nobody waits for; a volume that needs another pool once it is known where its instance runs."""
        if self._nova is None or isinstance(work, Move):
            submit(work)
        else:
            self._retrying.submit(self._retry, work, submit)

    def stop(self) -> None:
        """Ask about nothing more."""
        self._retrying.shutdown(wait=False, cancel_futures=True)
        self._asking.shutdown(wait=False, cancel_futures=True)

    def _retry(self, item: Retry, submit: Callable[[Retry], object]) -> None:
        try:
            with self._database.reading() as session:
                instance = instance_locality.named(resolution.hints_of(session, item.volume_id))
            submit(replace(item, locality=self._find({instance})[instance]) if instance else item)
        except Exception as error:
            # The sweep for volumes that wait for a pool takes it up again.
            LOG.warning("Volume %s goes on waiting for another pool: %s", item.volume_id, error)

    def _find(self, instances: set[str]) -> dict[str, Locality]:
        if self._nova is None or not instances:
            return {}
        if not self._seats.acquire(blocking=False):
            problem = f"Nova is slow to answer, and {_WAITING} other requests wait for it already"
            return dict.fromkeys(instances, Locality(code="compute_unavailable", problem=problem))
        try:
            asked = {each: self._asking.submit(self._nova.locality, each) for each in instances}
            futures.wait(asked.values(), self._patience)
            return {each: self._said(each, answer) for each, answer in asked.items()}
        finally:
            self._seats.release()

    def _said(self, instance: str, answer: "futures.Future[Locality]") -> Locality:
        if not answer.done():
            answer.cancel()
            LOG.warning("Nova has not told within %g s where instance %s runs", self._patience, instance)
            return Locality(code="compute_unavailable", problem=f"Nova has not answered within {self._patience:g} s")
        error = answer.exception()
        if error is None:
            return answer.result()
        LOG.error("It is not known where instance %s runs", instance, exc_info=error)
        return Locality(code="compute_unavailable", problem=f"asking Nova failed with {type(error).__name__}")


def _new_volumes(message: object) -> Sequence[CreateVolume]:
    if isinstance(message, CreateGroup):
        return message.volumes
    return [message] if isinstance(message, CreateVolume) else []


def _told(message: Any, found: Mapping[str, Locality]) -> Any:
    if isinstance(message, CreateGroup):
        return replace(message, volumes=[_told(volume, found) for volume in message.volumes])
    instance = instance_locality.named(message.hints) if isinstance(message, CreateVolume) else None
    if instance is None:
        return message
    return LocalVolume(locality=found[instance], **{name: getattr(message, name) for name in _FIELDS})
