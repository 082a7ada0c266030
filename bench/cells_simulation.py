# SPDX-License-Identifier: Apache-2.0
"""Discrete-event simulation of cells with a ledger each, beside a twin with one ledger for all of them.

A process is a generator that yields the seconds until its next step. Each step is one transaction in the ledger of one
cell, or the arrival of a message. Sizes are GiB and times are seconds.
"""

import enum
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

Process: TypeAlias = Generator[float, None, None]

#: Number of missing figures of a cell after which a router no longer selects it.
_MISSING_FIGURES = 3
#: Share of the capacity of its usual cells that the quota of a large project is.
_SHARE_OF_CELL = 0.25
#: Number of steps between two counts of all volumes.
_STEPS_PER_COUNT = 5000
#: Largest size of a volume, and the logarithmic mean and deviation of sizes.
LARGEST_GB, _SIZE_MEAN, _SIZE_DEVIATION = 500, 2.3, 1.2


class Exceeded(Exception):
    """A cell has more volumes than its capacity, a project more than its quota, or a ledger has lost a part of one."""


class Cause(enum.Enum):
    """Why cells refused a request that one ledger admitted."""

    QUOTA = "quota lent elsewhere"
    FIGURES = "stale figures"
    LOST = "lost cell"
    LEASE = "lease of a group"
    HISTORY = "other history"


class _Answer(enum.Enum):
    """The answer of a cell that did not take a volume."""

    NO_QUOTA = enum.auto()
    NO_ROOM = enum.auto()
    SILENT = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy of lending. Without ``borrows`` each cell has an equal part of each quota for ever.

    With ``returns`` a cell gives back what it does not use, and with ``recalls`` the home of a project asks all cells
    for unused parts before it refuses a loan.
    """

    name: str
    borrows: bool = True
    returns: bool = True
    recalls: bool = False


POLICIES = (
    Policy(name="equal parts", borrows=False, returns=False),
    Policy(name="on demand", returns=False),
    Policy(name="on demand, return"),
    Policy(name="on demand, return, recall", recalls=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The parameters of a simulation.

    ``requests`` are counted after the requests of two lives, ``rate`` is their number a second, ``life`` the mean life
    of a volume, ``message`` the time of a message. ``taken`` is the mean share of the capacity that all requested
    volumes would take, ``deviations`` the number of standard deviations by which a quota is above the mean usage of its
    project. A router gets new figures of a cell each ``interval`` seconds; ``tries`` cells are tried. A project uses
    ``spread`` cells as long as they have room, all if 0, and a large one so many that its quota is a quarter of their
    capacity. ``groups`` is the share of requests for a volume in each of two cells, ``crashes`` the share of groups
    during which the coordinator crashes, ``lease`` the time of a lease. One cell is lost for ``lost`` seconds in the
    middle.
    """

    cells: int = 16
    pools: int = 8
    projects: int = 500
    requests: int = 60_000
    rate: float = 20.0
    life: float = 1000.0
    taken: float = 1.05
    deviations: float = 2.0
    interval: float = 5.0
    message: float = 0.005
    routers: int = 4
    tries: int = 3
    spread: int = 4
    groups: float = 0.02
    crashes: float = 0.02
    lease: float = 10.0
    lost: float = 200.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a project at a time, for one volume or for a group of two in different cells.

    ``crash`` is the number of the step before which the coordinator of the group crashes, 0 for none.
    """

    number: int
    time: float
    project: int
    size_gb: int
    life: float
    group: bool
    crash: int


@dataclass(frozen=True, slots=True)
class World:
    """The requests, the capacities of all pools by cell, the quotas, and the order of the cells of each project."""

    scenario: Scenario
    requests: tuple[Request, ...]
    first_counted: int
    capacities: tuple[tuple[int, ...], ...]
    quotas: tuple[int, ...]
    cells_of_project: tuple[tuple[int, ...], ...]
    lost_cell: int
    lost_at: float

    def usual_cells(self, project: int) -> tuple[int, ...]:
        """Return the cells that a project uses as long as they have room."""
        if not self.scenario.spread:
            return self.cells_of_project[project]
        capacity = sum(map(sum, self.capacities)) / self.scenario.cells
        number = max(self.scenario.spread, math.ceil(self.quotas[project] / (_SHARE_OF_CELL * capacity)))
        return self.cells_of_project[project][:number]

    def lost_requests(self) -> range:
        """Return the numbers of the requests that arrive while the cell is lost."""
        times = [request.time for request in self.requests]
        end = self.lost_at + self.scenario.lost
        return range(*np.searchsorted(times, [self.lost_at, end]).tolist())


def make_world(scenario: Scenario) -> World:
    """Return a world for a seed. A few projects make most requests (Zipf), and quotas follow the expected usage."""
    random = np.random.default_rng(scenario.seed)
    warm_up = round(2 * scenario.rate * scenario.life)
    number = warm_up + scenario.requests
    shares = 1 / np.arange(1, scenario.projects + 1)
    shares /= shares.sum()
    times = np.cumsum(random.exponential(1 / scenario.rate, number))
    sizes = np.clip(np.ceil(random.lognormal(_SIZE_MEAN, _SIZE_DEVIATION, number)), 1, LARGEST_GB)
    groups = random.random(number) < scenario.groups
    crashes = np.where(random.random(number) < scenario.crashes, random.integers(1, 4, number), 0) * groups
    columns = (
        times.tolist(),
        random.choice(scenario.projects, number, p=shares).tolist(),
        sizes.astype(int).tolist(),
        random.exponential(scenario.life, number).tolist(),
        groups.tolist(),
        crashes.tolist(),
    )
    volumes = shares * scenario.rate * scenario.life
    counts = 1 + groups
    mean = volumes * float((sizes * counts).mean())
    deviation = np.sqrt(volumes * float(((sizes * counts) ** 2).mean()))
    quotas = np.ceil(mean + scenario.deviations * deviation).astype(int)
    weights = random.uniform(0.7, 1.3, scenario.cells)
    per_cell = mean.sum() / scenario.taken * weights / weights.sum()
    order = [tuple(random.permutation(scenario.cells).tolist()) for _ in range(scenario.projects)]
    return World(
        scenario=scenario,
        requests=tuple(Request(number, *row) for number, row in enumerate(zip(*columns, strict=True))),
        first_counted=warm_up,
        capacities=tuple((int(total / scenario.pools),) * scenario.pools for total in per_cell),
        quotas=tuple(quotas.tolist()),
        cells_of_project=tuple(order),
        lost_cell=int(random.integers(scenario.cells)),
        lost_at=float(times[warm_up] + (times[-1] - times[warm_up] - scenario.lost) / 2),
    )


# --- The twin with one ledger ---


def decide_with_one_ledger(world: World) -> list[bool]:
    """Return for each request whether one ledger for all cells admits it."""
    pools = world.scenario.pools
    free = np.array(world.capacities, dtype=np.int64).ravel()
    unused = list(world.quotas)
    ends: list[tuple[float, int, int, int]] = []
    admitted = []
    for request in world.requests:
        while ends and ends[0][0] <= request.time:
            _, pool, size_gb, project = heapq.heappop(ends)
            free[pool] += size_gb
            unused[project] += size_gb
        chosen = []
        if unused[request.project] >= request.size_gb * (1 + request.group):
            chosen = [int(free.argmax())]
            if request.group:
                others = free.copy()
                cell = chosen[0] // pools
                others[cell * pools : (cell + 1) * pools] = -1
                chosen.append(int(others.argmax()))
            if any(free[pool] < request.size_gb for pool in chosen):
                chosen = []
        for pool in chosen:
            free[pool] -= request.size_gb
            unused[request.project] -= request.size_gb
            heapq.heappush(ends, (request.time + request.life, pool, request.size_gb, request.project))
        admitted.append(bool(chosen))
    return admitted


# --- Cells ---


@dataclass(slots=True)
class Cell:
    """A cell: the free capacity of its pools, and of each project's quota its part and the used part of it."""

    number: int
    free: list[int]
    parts: list[int]
    used: list[int]
    lost: bool = False
    requests: int = 0
    refills: set[int] = field(default_factory=set)

    def unused(self, project: int) -> int:
        """Return the unused part of a quota that this cell has."""
        return self.parts[project] - self.used[project]

    def roomiest(self) -> int:
        """Return the number of the pool with the most free capacity."""
        return self.free.index(max(self.free))


@dataclass(frozen=True, slots=True)
class Booking:
    """A volume of a project in a pool of a cell: a claim, or a lease of one."""

    cell: Cell
    pool: int
    project: int
    size_gb: int


class Audit:
    """All volumes, counted apart from the ledgers. Each change is compared with the capacity and the quota."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._of_pool: Counter[tuple[int, int]] = Counter()
        self._of_project: Counter[int] = Counter()
        self.live: set[int] = set()
        self._bookings: dict[int, Booking] = {}

    def add(self, booking: Booking) -> None:
        """Count a booking. Raises :class:`Exceeded` if it is beyond the capacity of its pool or the quota."""
        self._bookings[id(booking)] = booking
        pool = (booking.cell.number, booking.pool)
        self._of_pool[pool] += booking.size_gb
        self._of_project[booking.project] += booking.size_gb
        self._compare("pool", pool, self._of_pool[pool], self._world.capacities[pool[0]][pool[1]])
        self._compare(
            "project", booking.project, self._of_project[booking.project], self._world.quotas[booking.project]
        )

    def remove(self, booking: Booking) -> None:
        """Count a booking no longer."""
        del self._bookings[id(booking)]
        self._of_pool[booking.cell.number, booking.pool] -= booking.size_gb
        self._of_project[booking.project] -= booking.size_gb

    def count_all(self, cells: Iterable[Cell]) -> None:
        """Compare the counters of all cells with the sums over all volumes. Raises :class:`Exceeded`."""
        free = {(cell.number, pool): size for cell in cells for pool, size in enumerate(cell.free)}
        used = {(cell.number, project): size for cell in cells for project, size in enumerate(cell.used)}
        for booking in self._bookings.values():
            free[booking.cell.number, booking.pool] += booking.size_gb
            used[booking.cell.number, booking.project] -= booking.size_gb
        for (cell, pool), size in free.items():
            if size != self._world.capacities[cell][pool]:
                raise Exceeded(f"pool {pool} of cell {cell} has {size} GiB, of {self._world.capacities[cell][pool]}")
        if any(used.values()):
            raise Exceeded("a counter of a project in a cell is not the sum of its volumes")

    def _compare(self, noun: str, name: object, size: int, limit: int) -> None:
        if size > limit:
            raise Exceeded(f"{noun} {name} has {size} GiB, its limit is {limit} GiB")


@dataclass(slots=True)
class Outcome:
    """The figures of a policy. Requests are counted after the warm-up, and times are those of the counted requests.

    ``causes`` are those of the requests that only the cells refused, ``causes_while_lost`` of those that arrived while
    a cell was lost. ``waits`` are requests that waited for a loan.
    """

    policy: str
    requests: int = 0
    refused: int = 0
    refused_by_one_ledger: int = 0
    admitted_by_cells_alone: int = 0
    causes: Counter[Cause] = field(default_factory=Counter)
    requests_while_lost: int = 0
    causes_while_lost: Counter[Cause] = field(default_factory=Counter)
    messages: int = 0
    waits: int = 0
    seconds: float = 0.0
    per_cell: list[int] = field(default_factory=list)
    steps: int = 0


class Simulation:
    """Cells under a policy of lending, with the requests of a world."""

    def __init__(self, world: World, policy: Policy, one_ledger: list[bool]) -> None:
        self._world = world
        self._scenario = world.scenario
        self._policy = policy
        self._one_ledger = one_ledger
        self._random = np.random.default_rng([world.scenario.seed, 1])
        projects, number = world.scenario.projects, world.scenario.cells
        self.cells = [
            Cell(cell, list(capacities), [0] * projects, [0] * projects)
            for cell, capacities in enumerate(world.capacities)
        ]
        #: The home of a project lends its quota to the cells; ``unlent`` and ``in_transit`` are GiB by project.
        self.homes = [self.cells[order[0]] for order in world.cells_of_project]
        self.unlent = list(world.quotas)
        self.in_transit = [0] * projects
        self._usual_cells = [world.usual_cells(project) for project in range(projects)]
        self._audit = Audit(world)
        self._leased: Counter[tuple[int, int, int]] = Counter()
        self._figures = np.array([[max(cell.free), sum(cell.free)] for cell in self.cells])
        self._figures_at = np.zeros(number)
        #: The sizes that each router has sent to each cell since the last figures of the cell.
        self._sent = np.zeros((world.scenario.routers, number))
        self._returns_at = world.lost_at + world.scenario.lost
        self._lost_requests = world.lost_requests()
        self._now = 0.0
        self._events: list[tuple[float, int, Process]] = []
        self._serial = itertools.count()
        self._touched: set[int] = set()
        self.outcome = Outcome(policy.name, refused_by_one_ledger=0)
        if not policy.borrows:
            self._lend_equal_parts()

    def _lend_equal_parts(self) -> None:
        for project, quota in enumerate(self._world.quotas):
            for cell in self._usual_cells[project]:
                self.cells[cell].parts[project] = quota // len(self._usual_cells[project])
            self.homes[project].parts[project] += quota % len(self._usual_cells[project])
            self.unlent[project] = 0

    def run(self) -> Outcome:
        """Run all requests, and compare after each step. Raises :class:`Exceeded` after a wrong one."""
        self._start(self._arrivals())
        self._start(self._loss())
        for cell in self.cells:
            self._start(self._reports(cell))
        last = self._world.requests[-1].time
        counted = len(self._world.requests) - self._world.first_counted
        while self._events and (self._events[0][0] <= last or self.outcome.requests < counted):
            self._now, _, process = heapq.heappop(self._events)
            self._advance(process)
            for project in self._touched:
                self._compare_parts(project)
            self._touched.clear()
            self.outcome.steps += 1
            if self.outcome.steps % _STEPS_PER_COUNT == 0:
                self._audit.count_all(self.cells)
        self._audit.count_all(self.cells)
        self.outcome.seconds = last - self._world.requests[self._world.first_counted].time
        self.outcome.per_cell = [cell.requests for cell in self.cells]
        return self.outcome

    def _start(self, process: Process) -> None:
        self._advance(process)

    def _advance(self, process: Process) -> None:
        """Let a process make its next step, and put it among the events if it has another."""
        for delay in process:
            heapq.heappush(self._events, (self._now + delay, next(self._serial), process))
            return

    def _compare_parts(self, project: int) -> None:
        """Compare the parts of a quota with the quota, and the usage in each cell with its part."""
        parts = self.unlent[project] + self.in_transit[project]
        for cell in self.cells:
            parts += cell.parts[project]
            if cell.used[project] > cell.parts[project]:
                raise Exceeded(f"project {project} uses {cell.used[project]} GiB of {cell.parts[project]} in a cell")
        if parts != self._world.quotas[project] or self.unlent[project] < 0:
            raise Exceeded(f"the parts of project {project} are {parts} GiB, its quota {self._world.quotas[project]}")

    def _is_counted(self) -> bool:
        return self._now >= self._world.requests[self._world.first_counted].time

    # --- Arrivals, figures and the lost cell ---

    def _arrivals(self) -> Process:
        for request in self._world.requests:
            yield request.time - self._now
            self._start(self._group(request) if request.group else self._volume(request))

    def _reports(self, cell: Cell) -> Process:
        """Send the figures of a cell to all routers; the cells take turns."""
        yield self._scenario.interval * cell.number / len(self.cells)
        while True:
            if not cell.lost:
                self._figures[cell.number] = max(cell.free), sum(cell.free)
                self._figures_at[cell.number] = self._now
                self._sent[:, cell.number] = 0
            yield self._scenario.interval

    def _loss(self) -> Process:
        if not self._scenario.lost:
            return
        cell = self.cells[self._world.lost_cell]
        yield self._world.lost_at
        cell.lost = True
        yield self._scenario.lost
        cell.lost = False

    def _until_back(self, *cells: Cell) -> Process:
        """Wait until none of these cells is lost."""
        if any(cell.lost for cell in cells):
            # The later serial number puts this step behind the return of the cell.
            yield self._returns_at - self._now + 1e-6

    # --- The way of a request ---

    def _volume(self, request: Request) -> Process:
        answers: list[_Answer] = []
        booking = yield from self._place(request, set(), answers)
        if booking is None:
            self._count_refused(request, answers)
            return
        self._count_admitted(request)
        yield request.life
        yield from self._delete(booking)

    def _group(self, request: Request) -> Process:
        """Lease a claim in each of two cells, then confirm both. The first cell keeps the decision.

        After a crash of the coordinator the leases end. The first cell then ends its lease by itself, if it was not
        confirmed, and the second one asks the first.
        """
        answers: list[_Answer] = []
        first = yield from self._lease(request, set(), answers)
        if first is None:
            self._count_refused(request, answers)
            return
        began = self._now
        if request.crash == 1:
            yield from self._end_leases(self._scenario.lease, first)
            self._count_refused(request, answers, Cause.LEASE)
            return
        second = yield from self._lease(request, {first.cell.number}, answers)
        if second is None:
            yield from self._end_leases(self._scenario.message, first)
            self._count_refused(request, answers)
            return
        if request.crash == 2:
            yield from self._end_leases(self._scenario.lease, first, second)
            self._count_refused(request, answers, Cause.LEASE)
            return
        yield self._scenario.message
        if first.cell.lost or self._now - began > self._scenario.lease:
            yield from self._end_leases(0.0, first, second)
            self._count_refused(request, answers, Cause.LOST)
            return
        self._confirm(first)
        self._count_admitted(request)
        yield self._scenario.lease if request.crash == 3 else self._scenario.message
        yield from self._until_back(first.cell, second.cell)
        self._confirm(second)
        yield max(0.0, request.time + request.life - self._now)
        yield from self._delete(first)
        yield from self._delete(second)

    def _lease(
        self, request: Request, excluded: set[int], answers: list[_Answer]
    ) -> Generator[float, None, Booking | None]:
        booking = yield from self._place(request, excluded, answers)
        if booking is not None:
            self._leased[booking.cell.number, booking.pool, booking.project] += booking.size_gb
        return booking

    def _confirm(self, booking: Booking) -> None:
        self._leased[booking.cell.number, booking.pool, booking.project] -= booking.size_gb

    def _end_leases(self, delay: float, *bookings: Booking) -> Process:
        """Release leases after a time, the first one first; a lost cell releases its lease when it is back."""
        yield delay
        for booking in bookings:
            yield from self._until_back(bookings[0].cell, booking.cell)
            self._confirm(booking)
            self._release(booking)
            yield self._scenario.message

    def _place(
        self, request: Request, excluded: set[int], answers: list[_Answer]
    ) -> Generator[float, None, Booking | None]:
        """Try some cells, and return the booking in the first that takes the volume, or None with the ``answers``."""
        router = int(self._random.integers(self._scenario.routers))
        for _ in range(self._scenario.tries):
            number = self._route(request, router, excluded)
            if number is None:
                return None
            excluded.add(number)
            yield self._scenario.message
            cell = self.cells[number]
            cell.requests += self._is_counted()
            if cell.lost:
                answers.append(_Answer.SILENT)
                continue
            refusal = yield from self._obtain_quota(cell, request)
            if refusal is not None:
                answers.append(refusal)
                if self._policy.recalls and not self.homes[request.project].lost:
                    return None
                continue
            pool = cell.roomiest()
            if cell.free[pool] < request.size_gb:
                answers.append(_Answer.NO_ROOM)
                continue
            return self._book(cell, pool, request)
        return None

    def _route(self, request: Request, router: int, excluded: Collection[int]) -> int | None:
        """Choose a cell by its last figures, less what this router has sent there since; None if none has room.

        Cells are chosen at random in proportion to their free capacity, so that routers do not all choose the same.
        """
        roomy = self._figures[:, 0] >= request.size_gb
        roomy &= self._now - self._figures_at < _MISSING_FIGURES * self._scenario.interval
        weights = np.where(roomy, np.maximum(self._figures[:, 1] - self._sent[router], 1.0), 0.0)
        weights[list(excluded)] = 0.0
        usual = self._usual_cells[request.project]
        if len(usual) < len(self.cells) and weights[list(usual)].any():
            weights[[cell.number for cell in self.cells if cell.number not in usual]] = 0.0
        sums = weights.cumsum()
        if sums[-1] == 0:
            return None
        number = int(sums.searchsorted(self._random.random() * sums[-1], side="right"))
        self._sent[router, number] += request.size_gb
        return number

    def _book(self, cell: Cell, pool: int, request: Request) -> Booking:
        booking = Booking(cell, pool, request.project, request.size_gb)
        cell.free[pool] -= request.size_gb
        cell.used[request.project] += request.size_gb
        self._audit.add(booking)
        self._touched.add(request.project)
        self._refill_if_low(cell, request.project)
        return booking

    def _release(self, booking: Booking) -> None:
        booking.cell.free[booking.pool] += booking.size_gb
        booking.cell.used[booking.project] -= booking.size_gb
        self._audit.remove(booking)
        self._touched.add(booking.project)
        self._return_if_high(booking.cell, booking.project)

    def _delete(self, booking: Booking) -> Process:
        yield from self._until_back(booking.cell)
        self._release(booking)

    # --- Lending ---

    def _usual_part(self, project: int) -> int:
        """Return the size of a refill: the parts in all cells of a project are half of its quota in sum."""
        return max(1, self._world.quotas[project] // (2 * len(self._usual_cells[project])))

    def _send(self, sender: Cell, receiver: Cell) -> float:
        """Count a message about lending, and return its time. A cell sends none to itself."""
        if sender is receiver:
            return 0.0
        self.outcome.messages += self._is_counted()
        return self._scenario.message

    def _obtain_quota(self, cell: Cell, request: Request) -> Generator[float, None, _Answer | None]:
        """Return None if a cell has enough of the quota, after a loan if necessary. A late loan is for others."""
        began = self._now
        if cell.unused(request.project) < request.size_gb and self._policy.borrows:
            self.outcome.waits += self._is_counted()
            yield from self._borrow(cell, request.project, request.size_gb)
        if cell.lost or self._now - began > self._scenario.lease:
            return _Answer.SILENT
        return None if cell.unused(request.project) >= request.size_gb else _Answer.NO_QUOTA

    def _borrow(self, cell: Cell, project: int, size_gb: int) -> Process:
        """Ask the home of a project for a loan, so that the cell has ``size_gb`` and a usual part if possible."""
        home = self.homes[project]
        yield self._send(cell, home)
        if home.lost:
            return
        amount = self._usual_part(project)
        if self._policy.recalls and self.unlent[project] < size_gb - cell.unused(project):
            yield from self._recall(project, cell)
            amount = 0
        lack = size_gb - cell.unused(project)
        amount = min(max(lack, amount), self.unlent[project])
        if amount < lack:
            yield self._send(home, cell)
            return
        yield from self._transfer(project, amount, home, cell)

    def _transfer(self, project: int, amount: int, home: Cell, cell: Cell) -> Process:
        """Lend: the home records the loan first, then the cell adds it to its part. A lost cell does so when back."""
        self.unlent[project] -= amount
        self.in_transit[project] += amount
        self._touched.add(project)
        yield self._send(home, cell)
        yield from self._until_back(cell)
        self.in_transit[project] -= amount
        cell.parts[project] += amount
        self._touched.add(project)

    def _give_back(self, project: int, amount: int, cell: Cell, home: Cell) -> Process:
        """Return a loan: the cell takes it from its part first, then the home records it."""
        cell.parts[project] -= amount
        self.in_transit[project] += amount
        self._touched.add(project)
        yield self._send(cell, home)
        yield from self._until_back(home)
        self.in_transit[project] -= amount
        self.unlent[project] += amount
        self._touched.add(project)

    def _recall(self, project: int, borrower: Cell) -> Process:
        """Have all other cells return what they do not use, and wait for their answers."""
        home = self.homes[project]
        lenders = [cell for cell in self.cells if cell is not borrower and cell.parts[project]]
        yield max((self._send(home, cell) for cell in lenders), default=0.0)
        for cell in lenders:
            if not cell.lost:
                self._start(self._give_back(project, cell.unused(project), cell, home))
        yield self._scenario.message + 1e-6
        yield from self._until_back(home)

    def _refill_if_low(self, cell: Cell, project: int) -> None:
        if not self._policy.borrows or project in cell.refills or self.homes[project].lost:
            return
        if 2 * cell.unused(project) < self._usual_part(project) <= self.unlent[project]:
            cell.refills.add(project)
            self._start(self._refill(cell, project))

    def _refill(self, cell: Cell, project: int) -> Process:
        yield from self._borrow(cell, project, self._usual_part(project))
        cell.refills.discard(project)

    def _return_if_high(self, cell: Cell, project: int) -> None:
        part, unused = self._usual_part(project), cell.unused(project)
        if self._policy.returns and unused > 2 * part and not self.homes[project].lost:
            self._start(self._give_back(project, unused - part, cell, self.homes[project]))

    # --- Counts ---

    def _count_admitted(self, request: Request) -> None:
        if request.number >= self._world.first_counted:
            self.outcome.requests += 1
            self.outcome.refused_by_one_ledger += not self._one_ledger[request.number]
            self.outcome.admitted_by_cells_alone += not self._one_ledger[request.number]

    def _count_refused(self, request: Request, answers: Collection[_Answer], cause: Cause | None = None) -> None:
        if request.number < self._world.first_counted:
            return
        self.outcome.requests += 1
        self.outcome.refused += 1
        self.outcome.refused_by_one_ledger += not self._one_ledger[request.number]
        if self._one_ledger[request.number]:
            cause = cause or self._cause(request, answers)
            self.outcome.causes[cause] += 1
            if request.number in self._lost_requests:
                self.outcome.causes_while_lost[cause] += 1

    def _cause(self, request: Request, answers: Collection[_Answer]) -> Cause:
        """Return why the cells refused a request: the first condition without which they had admitted it."""
        if _Answer.NO_QUOTA in answers:
            return self._cause_by_quota(request)
        if self._has_room(request, lambda cell: not cell.lost):
            return Cause.LOST if _Answer.SILENT in answers else Cause.FIGURES
        if self._has_room(request, lambda cell: True):
            return Cause.LOST
        if self._has_room(request, lambda cell: True, self._leased_by_pool()):
            return Cause.LEASE
        return Cause.HISTORY

    def _cause_by_quota(self, request: Request) -> Cause:
        project, home = request.project, self.homes[request.project]
        needed = request.size_gb * (1 + request.group)
        unused = self._world.quotas[project] - sum(cell.used[project] for cell in self.cells)
        if unused < needed:
            leased = sum(size for (_, _, owner), size in self._leased.items() if owner == project)
            return Cause.LEASE if unused + leased >= needed else Cause.HISTORY
        if home.lost and self._policy.borrows and (self._policy.recalls or self.unlent[project] >= request.size_gb):
            return Cause.LOST
        out_of_reach = sum(cell.unused(project) for cell in self.cells if cell.lost)
        return Cause.LOST if unused - out_of_reach < needed else Cause.QUOTA

    def _leased_by_pool(self) -> Counter[tuple[int, int]]:
        leased: Counter[tuple[int, int]] = Counter()
        for (cell, pool, _), size in self._leased.items():
            leased[cell, pool] += size
        return leased

    def _has_room(
        self,
        request: Request,
        condition: Callable[[Cell], bool],
        leased: Counter[tuple[int, int]] | None = None,
    ) -> bool:
        """Return whether enough of the cells that fulfil a condition have a pool with room."""
        roomy = 0
        for cell in self.cells:
            sizes = [size + (leased[cell.number, pool] if leased else 0) for pool, size in enumerate(cell.free)]
            roomy += condition(cell) and max(sizes) >= request.size_gb
        return roomy >= 1 + request.group


def simulate(world: World, policies: Iterable[Policy] = POLICIES) -> Generator[Outcome, None, None]:
    """Yield the figures of each policy, with the same requests for all of them and for one ledger."""
    one_ledger = decide_with_one_ledger(world)
    counted_while_lost = [number for number in world.lost_requests() if number >= world.first_counted]
    for policy in policies:
        outcome = Simulation(world, policy, one_ledger).run()
        outcome.requests_while_lost = len(counted_while_lost)
        yield outcome
