# SPDX-License-Identifier: Apache-2.0
"""The hosts of the instances that hints name, looked up before a request is decided.

The threads of the requests wait for Nova; the decision thread does not, and neither do requests without the hint.
Nothing is cached, because instances move.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, fields, replace
from typing import cast

import sqlalchemy as sa
from sqlalchemy import orm

from tonnage.capacity.request import Locality
from tonnage.extensions.compute import nova
from tonnage.filters import instance_locality
from tonnage.ledger import models
from tonnage.ledger.db.database import Database
from tonnage.rpc.messages import CreateGroup, CreateVolume
from tonnage.scheduler.requests.placement_requests import LocalVolume, Move, Retry
from tonnage.scheduler.requests.preparation import Message, Preparation

LOG = logging.getLogger(__name__)

#: Number of instances that Nova is asked about at a time.
_THREADS = 8

#: Number of requests that may wait for Nova. The RPC server has 64 threads, and other requests need some of them.
_WAITING = 32

#: Codes with which a volume that waits for another pool goes on waiting: the next answer may be another.
_TRANSIENT = (nova.UNAVAILABLE, nova.NOT_PERMITTED)

_FIELDS = [field.name for field in fields(CreateVolume)]


@dataclass(frozen=True, slots=True)
class _ProjectInstance:
    """An instance, and the project whose request names it."""

    project_id: str
    instance_id: str


class InstanceHosts(Preparation):
    """Looks up the hosts of instances. A scheduler without Nova has no such object. Many threads may use it.

    At most ``waiting`` requests wait for Nova; further ones are answered at once.
    """

    def __init__(self, database: Database, compute: nova.Nova, waiting: int = _WAITING) -> None:
        self._database = database
        self._waiting = waiting
        self._nova = compute
        self._timeout = compute.timeout
        self._slots = threading.BoundedSemaphore(waiting)
        self._lookups = futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="nova")
        self._located_later: set[str] = set()
        self._retrying = futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="retry")

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with the hosts of the instances that the hints of their new volumes name.

        All look-ups together take no longer than the timeout of Nova.
        """
        volumes = [volume for message in messages for volume in _new_volumes(message)]
        localities = self._find(
            {instance for volume in volumes if (instance := _hinted_instance(volume.project_id, volume.hints))}
        )
        return [_with_locality(message, localities) for message in messages] if localities else list(messages)

    def prepare_later(self, work: Retry | Move, submit: Callable[[Retry | Move], object]) -> None:
        """Submit work without a client; a volume that needs another pool waits for the host of its instance."""
        if isinstance(work, Move):
            submit(work)
        elif work.volume_id not in self._located_later:
            # Each sweep hands the volume over again, maybe before Nova has answered.
            self._located_later.add(work.volume_id)
            self._retrying.submit(self._retry, work, submit)

    def stop(self) -> None:
        """Cancel the look-ups."""
        self._retrying.shutdown(wait=False, cancel_futures=True)
        self._lookups.shutdown(wait=False, cancel_futures=True)

    def _retry(self, item: Retry, submit: Callable[[Retry], object]) -> None:
        try:
            try:
                located = self._located_again(item)
            finally:
                self._located_later.discard(item.volume_id)
            if located.locality is None or located.locality.code not in _TRANSIENT:
                submit(located)
                return
            problem = located.locality.problem
        except Exception as error:
            problem = str(error)
        # The next sweep hands it over again.
        LOG.warning("Volume %s goes on waiting for another pool: %s", item.volume_id, problem)

    def _located_again(self, item: Retry) -> Retry:
        with self._database.reading() as session:
            instance = _hinted_instance(*_hints_of(session, item.volume_id))
        return replace(item, locality=self._find({instance})[instance]) if instance else item

    def _find(self, instances: set[_ProjectInstance]) -> dict[_ProjectInstance, Locality]:
        if not instances:
            return {}
        if not self._slots.acquire(blocking=False):
            problem = f"Nova is slow to answer, and {self._waiting} other requests wait for it already"
            return dict.fromkeys(instances, Locality(code=nova.UNAVAILABLE, problem=problem))
        try:
            answers = {
                instance: self._lookups.submit(self._nova.locality, instance.instance_id, instance.project_id)
                for instance in instances
            }
            futures.wait(answers.values(), self._timeout)
            return {instance: self._locality(instance.instance_id, answer) for instance, answer in answers.items()}
        finally:
            self._slots.release()

    def _locality(self, instance: str, answer: "futures.Future[Locality]") -> Locality:
        if not answer.done():
            answer.cancel()
            LOG.warning("Nova has not told within %g s where instance %s runs", self._timeout, instance)
            return Locality(code=nova.UNAVAILABLE, problem=f"Nova has not answered within {self._timeout:g} s")
        error = answer.exception()
        if error is None:
            return answer.result()
        LOG.error("It is not known where instance %s runs", instance, exc_info=error)
        return nova.cannot_be_asked(instance)


def _hinted_instance(project_id: str, hints: Mapping[str, object]) -> _ProjectInstance | None:
    instance = instance_locality.hinted_instance(hints) if hints else None
    return None if instance is None else _ProjectInstance(project_id, instance)


def _new_volumes(message: object) -> Sequence[CreateVolume]:
    if isinstance(message, CreateGroup):
        return message.volumes
    return [message] if isinstance(message, CreateVolume) else []


def _with_locality(message: Message, localities: Mapping[_ProjectInstance, Locality]) -> Message:
    if isinstance(message, CreateGroup):
        return replace(message, volumes=[_with_locality(volume, localities) for volume in message.volumes])
    instance = _hinted_instance(message.project_id, message.hints) if isinstance(message, CreateVolume) else None
    if instance is None:
        return message
    # A LocalVolume is a CreateVolume.
    volume = LocalVolume(locality=localities[instance], **{name: getattr(message, name) for name in _FIELDS})
    return cast(Message, volume)


def _hints_of(session: orm.Session, volume_id: str) -> tuple[str, Mapping[str, object]]:
    """Return the project of a volume and the hints that it was asked for with; none if it is gone."""
    query = sa.select(models.Volume.project_id, models.Volume.hints).where(models.Volume.id == volume_id)
    row = session.execute(query).one_or_none()
    return ("", {}) if row is None else (row.project_id, row.hints or {})
