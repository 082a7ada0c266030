# SPDX-License-Identifier: Apache-2.0
"""The ends of claims, as the rows of Cinder's volumes show them.

cinder-volume writes the row of a volume after the driver has returned. So a row at rest shows that the operation of a
claim has ended. A volume in error may still be made by a command that waits in a queue, so its claims stay in flight
while its row lives.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from tonnage.extensions.cinder.ledger.growths import GROW
from tonnage.extensions.cinder.ledger.observed_claims import GROUP, SNAPSHOT, OpenClaim, SeenEnd, SeenVolume
from tonnage.ledger.models import claim_verbs

#: Statuses of a volume whose operation changes its size on the storage and has not ended.
_IN_HAND = frozenset({"creating", "downloading", "extending", "deleting"})

#: Values of ``migration_status`` of a volume that is being moved.
MOVING = frozenset({"starting", "migrating", "completing"})

#: Begin of the ``migration_status`` of a volume that Cinder makes as the target of a migration; the id follows.
_TARGET = "target:"


class VolumeRow(Protocol):
    """A live row of a volume in Cinder's database. ``pool`` is None without a host, ``group_id`` without a group."""

    @property
    def id(self) -> str: ...

    @property
    def pool(self) -> str | None: ...

    @property
    def size_gb(self) -> int: ...

    @property
    def status(self) -> str: ...

    @property
    def migration_status(self) -> str: ...

    @property
    def project_id(self) -> str: ...

    @property
    def group_id(self) -> str | None: ...


class Settlement(NamedTuple):
    """What rows show: claims that have ended, and volumes with capacity that no claim counts."""

    ends: list[SeenEnd]
    unclaimed: list[SeenVolume]


def judge(
    claims: Sequence[OpenClaim],
    rows: Iterable[VolumeRow],
    lease: float,
    snapshots_in_hand: Collection[str] = (),
) -> Settlement:
    """Compare claims with the rows of their volumes, and rows with the claims of their volumes.

    The rows must be read after the claims. ``claims`` has all claims of each volume; a volume without a row is deleted.
    A claim that was not sent is given up after ``lease`` seconds if its row has no host. The claim of a snapshot ends
    when the snapshot is not in hand any more; it counts for no volume. A claim of no capacity shows that a retype was
    decided, and ends with it. The claim of a group ends when its volumes have hosts, because they get their own claims
    then; without any volume it is given up after ``lease`` seconds. The claim of a volume that moves to grow counts for
    its copy too, and ends with the record of the growth.
    """
    by_id = {row.id: row for row in rows}
    claims_by_volume: dict[str, list[OpenClaim]] = {volume_id: [] for volume_id in by_id}
    volumes_by_group: dict[str | None, list[VolumeRow]] = {}
    for volume in by_id.values():
        volumes_by_group.setdefault(volume.group_id, []).append(volume)
    settlement = Settlement([], [])
    for claim in claims:
        if claim.verb == SNAPSHOT:
            if claim.volume_id not in snapshots_in_hand:
                settlement.ends.append(SeenEnd(claim.id, claim.sent, kept=False))
            continue
        if claim.verb == GROUP:
            members = volumes_by_group.get(claim.volume_id, [])
            # Cinder's API makes all of their rows before it gives a host to one.
            if all(row.pool is not None for row in members) if members else claim.age >= lease:
                settlement.ends.append(SeenEnd(claim.id, claim.sent, kept=False))
            continue
        claims_by_volume.setdefault(claim.volume_id, []).append(claim)
    targets = {
        (row.migration_status.removeprefix(_TARGET), row.pool)
        for row in by_id.values()
        if row.migration_status.startswith(_TARGET)
    }
    growing = {(claim.volume_id, claim.pool) for claim in claims if claim.verb == GROW}
    copies = {
        row.id
        for row in by_id.values()
        if row.migration_status.startswith(_TARGET)
        and (row.migration_status.removeprefix(_TARGET), row.pool) in growing
    }
    for volume_id, volume_claims in claims_by_volume.items():
        row = by_id.get(volume_id)
        if row is None:
            settlement.ends.extend(SeenEnd(claim.id, claim.sent, kept=False, deleted=True) for claim in volume_claims)
        elif volume_id not in copies:
            _judge_volume(settlement, row, volume_claims, targets, lease)
    return settlement


def _judge_volume(
    settlement: Settlement,
    row: VolumeRow,
    claims: Sequence[OpenClaim],
    targets: set[tuple[str, str | None]],
    lease: float,
) -> None:
    moving = row.migration_status in MOVING or row.status == "retyping"
    at_rest = row.status not in _IN_HAND and not row.status.startswith("error")
    counted = 0
    open_ends = False
    ends = []
    for claim in claims:
        kept = _is_kept(claim, row, moving, at_rest)
        if claim.verb == claim_verbs.MIGRATE and moving and (row.id, claim.pool) in targets:
            kept = False  # the row of the target counts instead
        if kept is None or (kept is False and not claim.sent and row.pool is None and claim.age < lease):
            open_ends = True
        elif not kept or not claim.ended:
            ends.append(SeenEnd(claim.id, claim.sent, kept=kept))
        if kept is not False and claim.pool == row.pool:
            counted += claim.size_gb
    if counted > row.size_gb and at_rest and not open_ends:
        # The volume has become smaller. Its claims are replaced by one of its size.
        ends = [SeenEnd(claim.id, claim.sent, kept=False) for claim in claims]
        counted = 0
    settlement.ends.extend(ends)
    if row.pool is not None and counted < row.size_gb:
        settlement.unclaimed.append(
            SeenVolume(
                volume_id=row.id,
                pool=row.pool,
                size_gb=row.size_gb,
                ended=at_rest and not moving,
                group_id=row.group_id,
            )
        )


def _is_kept(claim: OpenClaim, row: VolumeRow, moving: bool, at_rest: bool) -> bool | None:
    """Return whether a volume has the capacity of a claim, None while that is not known."""
    if claim.verb == GROW:
        return None
    if claim.verb == claim_verbs.MIGRATE and not claim.ended and moving:
        return None
    if row.pool != claim.pool or claim.size_gb == 0:
        return False
    if claim.ended:
        return True
    if not at_rest:
        return None
    return row.size_gb >= claim.target_size_gb
