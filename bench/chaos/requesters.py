# SPDX-License-Identifier: Apache-2.0
"""Threads that send requests, repeat them without an answer, and record the answers."""

import contextlib
import dataclasses
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.plan import THIN, Plan, PlannedRequest
from tonnage.capacity import errors
from tonnage.rpc import contract, messages
from tonnage.rpc.clients.scheduler_client import SchedulerClient

PLACED = "placed"
REFUSED = "refused"
#: The state of the volume did not permit the request, or the volume did not exist. The checker verifies such answers.
TURNED_AWAY = "turned away"
UNANSWERED = "unanswered"

_PATIENCE = 300.0


@dataclass(slots=True)
class Volume:
    """A volume in its owner's record. ``size_gb`` is the last granted size; ``deleted``: its deletion is granted."""

    id: str
    size_gb: int
    created_gb: int
    busy: bool = False
    deleted: bool = False


@dataclass(slots=True)
class SentRequest:
    """A request and its outcome. Times are of this process's wall clock; ``pools`` are the pools in the answer."""

    wish: PlannedRequest
    request_id: str
    sent: float = 0.0
    answered: float = 0.0
    outcome: str = UNANSWERED
    resends: int = 0
    volume_ids: list[str] = field(default_factory=list)
    pools: list[str] = field(default_factory=list)
    volume: Volume | None = None
    new_size_gb: int = 0
    why: str = ""
    new_ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Generate the ids of the new volumes, which stay the same for each sending."""
        draw = random.Random(self.request_id)
        self.new_ids = [str(uuid.UUID(int=draw.getrandbits(128), version=4)) for _ in range(self.wish.count)]


class Requesters:
    """Threads that send the plan's requests, each until it is answered."""

    def __init__(self, plan: Plan, client: SchedulerClient, stopping: threading.Event) -> None:
        self._plan = plan
        self._client = client
        self._stopping = stopping
        self._on_volumes = {
            "extend": self._extend,
            "delete": self._delete,
            "migrate": self._migrate,
            "retype": self._retype,
        }
        self._lock = threading.Lock()
        self._next = 0
        self._live: list[Volume] = []
        self.volumes: dict[str, Volume] = {}
        self.asked: list[SentRequest] = []
        self.surprises: list[str] = []
        self.done = 0
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(plan.threads)]

    def start(self) -> None:
        """Start the requests."""
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of all requests; return whether all have ended."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def delete_again(self, volume_ids: Sequence[str]) -> None:
        """Send the failed deletions again, as their owners would."""
        for volume_id in volume_ids:
            message = messages.DeleteVolume(request_id=f"req-{uuid.uuid4()}", volume_id=volume_id)
            with contextlib.suppress(errors.TonnageError):
                self._client.call(contract.DELETE_VOLUME, message)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                if self._next >= self._plan.requests:
                    return
                number = self._next
                self._next += 1
            try:
                self._serve(self._plan.wish(number))
            except Exception as error:
                self._surprise(f"request {number}: {type(error).__name__}: {error}")
            with self._lock:
                self.done += 1

    def _serve(self, wish: PlannedRequest) -> None:
        old_volume = self._on_volumes.get(wish.verb)
        if old_volume is not None:
            with self._picked(wish) as volume:
                if volume is not None:
                    old_volume(wish, volume)
                    return
        if wish.verb != "group":
            wish = dataclasses.replace(wish, verb="create", count=1)
        asked = self._note(wish)
        ask = self._group if wish.verb == "group" else self._create
        twin: list[str] = []
        if wish.twin:
            other = threading.Thread(target=lambda: twin.extend(ask(SentRequest(wish, asked.request_id))))
            other.start()
        told = ask(asked)
        if asked.outcome == PLACED:
            self._enter(wish, told)
        if wish.twin:
            other.join()
            if twin != told:
                self._surprise(f"request {asked.request_id}, sent twice, was answered {told} and {twin}")

    def _create(self, asked: SentRequest) -> list[str]:
        def send() -> messages.Answer:
            return self._client.call(
                contract.CREATE_VOLUME, _new_volume(asked.wish, asked.request_id, asked.new_ids[0])
            )

        answer = self._insist(asked, send)
        if answer is not None:
            self._decided(asked, [answer], answer.refusal)
        return asked.volume_ids

    def _group(self, asked: SentRequest) -> list[str]:
        def send() -> Any:
            members = [_new_volume(asked.wish, f"{asked.request_id}-{id[:8]}", id) for id in asked.new_ids]
            return self._client.call(
                contract.CREATE_GROUP, messages.CreateGroup(request_id=asked.request_id, volumes=members)
            )

        answer = self._insist(asked, send)
        if answer is not None:
            self._decided(asked, answer.volumes, answer.refusal)
            if asked.outcome == PLACED and len(asked.volume_ids) != asked.wish.count:
                self._surprise(f"group {asked.request_id} of {asked.wish.count} got {len(asked.volume_ids)} volumes")
        return asked.volume_ids

    def _extend(self, wish: PlannedRequest, volume: Volume) -> None:
        asked = self._note(wish)
        asked.volume, asked.new_size_gb = volume, volume.size_gb + wish.size_gb
        message = messages.ExtendVolume(request_id=asked.request_id, volume_id=volume.id, new_size_gb=asked.new_size_gb)
        answer = self._insist(asked, lambda: self._client.call(contract.EXTEND_VOLUME, message))
        if answer is None:
            return
        self._decided(asked, [answer], answer.refusal)
        if asked.outcome == PLACED:
            volume.size_gb = max(volume.size_gb, asked.new_size_gb)

    def _migrate(self, wish: PlannedRequest, volume: Volume) -> None:
        asked = self._note(wish)
        message = messages.MigrateVolume(request_id=asked.request_id, volume_id=volume.id)
        self._move(asked, volume, lambda: self._client.call(contract.MIGRATE_VOLUME, message))

    def _retype(self, wish: PlannedRequest, volume: Volume) -> None:
        asked = self._note(wish)
        message = messages.RetypeVolume(
            request_id=asked.request_id,
            volume_id=volume.id,
            volume_type=wish.kind or THIN,
            migration_policy=messages.MigrationPolicy.ON_DEMAND,
        )
        self._move(asked, volume, lambda: self._client.call(contract.RETYPE_VOLUME, message))

    def _move(self, asked: SentRequest, volume: Volume, send: Callable[[], messages.Answer]) -> None:
        asked.volume = volume
        answer = self._insist(asked, send)
        if answer is not None:
            self._decided(asked, [answer], answer.refusal)

    def _delete(self, wish: PlannedRequest, volume: Volume) -> None:
        asked = self._note(wish)
        asked.volume = volume
        message = messages.DeleteVolume(request_id=asked.request_id, volume_id=volume.id)
        self._insist(asked, lambda: self._client.call(contract.DELETE_VOLUME, message))
        if asked.outcome == PLACED or ("could not be found" in asked.why and asked.resends):
            asked.outcome, volume.deleted = PLACED, True
            return
        with self._lock:  # the volume is in use, so another request may delete it later
            self._live.append(volume)

    def _insist(self, asked: SentRequest, send: Callable[[], Any]) -> Any:
        """Send the same request until it is answered."""
        draw = random.Random(asked.request_id)
        asked.sent = time.time()
        deadline = time.monotonic() + _PATIENCE
        while not self._stopping.is_set() and time.monotonic() < deadline:
            try:
                answer = send()
                asked.outcome = PLACED
                return answer
            except errors.Unavailable as error:
                asked.why = error.message
            except errors.TonnageError as error:
                asked.why = error.message
                # Another scheduler already processes this request.
                if not (isinstance(error, errors.Conflict) and "is under way" in error.message):
                    asked.outcome = TURNED_AWAY
                    return None
            finally:
                asked.answered = time.time()
            asked.resends += 1
            time.sleep(draw.uniform(0.05, 0.5))
        return None

    def _decided(self, asked: SentRequest, answers: list[messages.Answer], refusal: Any) -> None:
        if refusal is not None:
            asked.outcome = REFUSED
            asked.why = refusal.message
            asked.pools = [refusal.pool] if refusal.pool else []
            return
        asked.volume_ids = [answer.volume_id for answer in answers]
        asked.pools = [answer.pool or "" for answer in answers]

    def _note(self, wish: PlannedRequest) -> SentRequest:
        asked = SentRequest(wish, f"req-{uuid.uuid4()}")
        with self._lock:
            self.asked.append(asked)
        return asked

    def _enter(self, wish: PlannedRequest, volume_ids: list[str]) -> None:
        with self._lock:
            for volume_id in volume_ids:
                volume = Volume(volume_id, wish.size_gb, wish.size_gb)
                self.volumes[volume_id] = volume
                self._live.append(volume)

    @contextlib.contextmanager
    def _picked(self, wish: PlannedRequest) -> Iterator[Volume | None]:
        """Pick a volume. Only deletes run together with other requests, as the result of two extends is undefined."""
        with self._lock:
            volume = self._live[int(wish.pick * len(self._live))] if self._live else None
            if volume is not None and wish.verb != "delete" and volume.busy:
                volume = None
            if volume is not None:
                volume.busy = volume.busy or wish.verb != "delete"
                if wish.verb == "delete":
                    self._live.remove(volume)
        try:
            yield volume
        finally:
            if volume is not None and wish.verb != "delete":
                volume.busy = False

    def _surprise(self, text: str) -> None:
        with self._lock:
            self.surprises.append(text)


def longest_gap(began: float, asked: Sequence[SentRequest]) -> float:
    """Return the longest time in seconds in which no request was granted, from the begin to the last granted one."""
    moments = [began, *sorted(one.answered for one in asked if one.outcome == PLACED)]
    return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)


def _new_volume(wish: PlannedRequest, request_id: str, volume_id: str) -> messages.CreateVolume:
    return messages.CreateVolume(
        request_id=request_id,
        volume_id=volume_id,
        size_gb=wish.size_gb,
        project_id="torture",
        volume_type=wish.kind,
    )
