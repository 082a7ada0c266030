# SPDX-License-Identifier: Apache-2.0
"""The storage of the plug-in: folders."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc


class Refused(Exception):
    """A call that fails by the rules of the standard."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(kw_only=True)
class Settings:
    """The capacity and the capabilities of the plug-in. Tests may change them at any time. Sizes are bytes.

    ``sizes`` maps each segment, the value of the label ``key``, to its capacity; without topology the only segment is
    ``""``. ``largest`` and ``smallest`` limit the size of a volume; 0 means no limit. A volume with the parameter
    ``copies`` takes its size that many times. ``page`` is the number of volumes in a page of a list. The next
    ``stale_tokens`` page tokens are refused. Methods in ``failing`` do nothing. A method with a gate blocks until the
    gate is set. Two of three calls of a method in ``unreliable`` do nothing. The next answer of a method in ``losing``
    is lost when the method has reached its gate. Methods in ``lost_answers`` do their work, and answer with that code.
    ``expands_beyond`` lets volumes grow beyond the capacity, which is then reported as less than 0. All volumes are
    made in the segment ``misplaced``, if it is set. The next ``empty_lists`` lists have no volumes. With
    ``speaking_ids`` the id of a volume contains its name.
    """

    sizes: dict[str, int]
    key: str = "topology.csi.test/zone"
    own: str = ""
    topology: bool = False
    creates: bool = True
    lists: bool = True
    capacity: bool = True
    expands: bool = True
    controller: bool = True
    ready: bool | None = None
    largest: int = 0
    smallest: int = 0
    page: int = 0
    stale_tokens: int = 0
    failing: dict[str, grpc.StatusCode] = field(default_factory=dict)
    unreliable: dict[str, grpc.StatusCode] = field(default_factory=dict)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    losing: set[str] = field(default_factory=set)
    expands_beyond: bool = False
    misplaced: str = ""
    empty_lists: int = 0
    speaking_ids: bool = False
    lost_answers: dict[str, grpc.StatusCode] = field(default_factory=dict)
    _entered: threading.Event = field(default_factory=threading.Event, init=False)

    def id_of(self, name: str) -> str:
        """Return the id of the volume with a name, which no client can guess unless ids speak."""
        return f"vol-{name if self.speaking_ids else hashlib.sha256(name.encode()).hexdigest()[:16]}"

    def pause(self, method: str) -> None:
        """Wait until the gate of a method is set."""
        gate = self.gates.get(method)
        if gate is not None:
            self._entered.set()
            gate.wait(timeout=60)

    def lose(self, answer: Callable[[], object]) -> None:
        """Start a call whose answer is lost."""

        def discard() -> None:
            with contextlib.suppress(Refused):
                answer()

        self._entered.clear()
        threading.Thread(target=discard).start()
        assert self._entered.wait(60), "there is no gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A volume on disk."""

    id: str
    name: str
    size: int
    segment: str
    parameters: Mapping[str, str]
    inline: bool = False

    @property
    def taken(self) -> int:
        return self.size * copies(self.parameters)


class Storage:
    """Volumes in folders ``<segment>/<volume id>``, each created under a temporary name first. Thread-safe."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    @contextlib.contextmanager
    def pending(self, what: str) -> Iterator[None]:
        """Reserve a volume for one operation. Raises Refused if another operation is pending."""
        with self._lock:
            if what in self._busy:
                raise Refused(grpc.StatusCode.ABORTED, f"an operation on {what} is pending")
            self._busy.add(what)
        try:
            yield
        finally:
            with self._lock:
                self._busy.remove(what)

    def all(self) -> list[Kept]:
        """Return all volumes in the order of their ids."""
        found = []
        for path in sorted(self._folder.glob("*/vol-*/volume.json"), key=lambda path: path.parent.name):
            with contextlib.suppress(FileNotFoundError):
                values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                found.append(Kept(size=(path.parent / "content").stat().st_size, **values))
        return found

    def find(self, id: str) -> Kept | None:
        """Return a volume."""
        return next((kept for kept in self.all() if kept.id == id), None)

    def free(self, settings: Settings, segment: str) -> int:
        """Return the free bytes of a segment."""
        return settings.sizes[segment] - sum(kept.taken for kept in self.all() if kept.segment == segment)

    def make(
        self,
        settings: Settings,
        name: str,
        size: int,
        segment: str,
        parameters: Mapping[str, str],
        inline: bool = False,
    ) -> Kept:
        """Create a volume. Raises Refused if it does not fit."""
        id = settings.id_of(name)
        kept = Kept(id=id, name=name, size=size, segment=segment, parameters=parameters, inline=inline)
        with self._lock:
            if kept.taken > self.free(settings, segment):
                raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{segment or 'the storage'} has no room for {size}")
            new = self._folder / (segment or "all") / f".{id}"
            new.mkdir(parents=True)
            _truncate(new / "content", size)
            about = {"id": id, "name": name, "segment": segment, "parameters": dict(parameters), "inline": inline}
            (new / "volume.json").write_text(json.dumps(about), encoding="utf-8")
            new.rename(new.with_name(id))
        return kept

    def grow(self, settings: Settings, kept: Kept, size: int) -> None:
        """Extend a volume. Raises Refused if it does not fit."""
        with self._lock:
            more = (size - kept.size) * copies(kept.parameters)
            if more > self.free(settings, kept.segment) and not settings.expands_beyond:
                raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, f"there is no room for {more} more")
            _truncate(self._path(kept) / "content", size)

    def remove(self, kept: Kept) -> None:
        """Remove a volume."""
        with self._lock:
            path = self._path(kept)
            gone = path.with_name(f".gone-{kept.id}")
            path.rename(gone)
            shutil.rmtree(gone)

    def _path(self, kept: Kept) -> pathlib.Path:
        return self._folder / (kept.segment or "all") / kept.id


def copies(parameters: Mapping[str, str]) -> int:
    """Return the parameter ``copies``. Raises Refused for unknown or wrong parameters."""
    value = parameters.get("copies", "1")
    if set(parameters) - {"copies"} or value not in ("1", "2", "3"):
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, f"parameters {dict(parameters)}: copies takes 1, 2 or 3")
    return int(value)


def _truncate(path: pathlib.Path, size: int) -> None:
    with path.open("ab") as file:
        os.truncate(file.fileno(), size)
