# SPDX-License-Identifier: Apache-2.0
"""A plan as commands of ``openstack``, for administrators to carry out."""

import shlex
from collections.abc import Collection, Iterator, Mapping

from tonnage.extensions.moves.planning.plan import MovePlan
from tonnage.extensions.relocation.plan_choices import Choices


def lines(
    plan: MovePlan, choices: Choices, new_types: Mapping[int, str], clusters: Collection[str], cloud: str | None
) -> Iterator[str]:
    """Yield the lines of a shell script.

    ``new_types`` are the types that volumes get by the numbers of their moves, ``clusters`` are the pools of clusters,
    and ``cloud`` is the entry of clouds.yaml.
    """
    program = "openstack" if cloud is None else f"openstack --os-cloud {shlex.quote(cloud)}"
    yield f"# To {plan.goal}: {plan.amount}; {plan.outcome}."
    for move in plan.moves:
        if move.after:
            numbers = " and ".join(map(str, move.after))
            yield f"# Wait until the moves {numbers} have ended: they make room in {move.target}."
        new_type = new_types.get(move.number)
        yield f"# {move.number}: {move.size_gb} GiB from {move.source} to {move.target}"
        if new_type is not None:
            yield f"{program} volume set --type {shlex.quote(new_type)} --retype-policy on-demand {move.volume_id}"
            continue
        kind_of_target = "--cluster" if move.target in clusters else "--host"
        lock = " --lock-volume" if choices.lock else ""
        yield f"{program} volume migrate {kind_of_target} {shlex.quote(move.target)}{lock} {move.volume_id}"
    for volume in plan.staying:
        yield f"# Volume {volume.volume_id} of {volume.size_gb} GiB stays in {volume.pool}: {volume.reason}"
