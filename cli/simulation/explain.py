# SPDX-License-Identifier: Apache-2.0
"""``tonnage explain`` and ``tonnage what-if``: simulated decisions, which place nothing."""

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.capacity.explanation import Explanation
from tonnage.capacity.topology import requirements
from tonnage.cli import setup
from tonnage.cli.display import tables
from tonnage.cli.simulation import explanations, scheduler_query
from tonnage.cli.simulation.argument_types import FOUND, PROJECT
from tonnage.rpc.messages import SimulationResult


def explain(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Run ``tonnage explain``. Return its exit status."""
    if len(arguments.node) > 1:
        return _explain_nodes(conf, arguments)
    outlooks = _query(conf, arguments, detail=True)
    explanations = [volume for outlook in outlooks for volume in outlook.volumes]
    if arguments.json:
        _print_json({"explanations": explanations})
    else:
        for explanation in explanations:
            _print_explanation(explanation, arguments.rows)
        _print_ignored(outlooks)
    return _status(outlooks)


def _explain_nodes(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Show the pools of the volumes for each node. Return 0 if they can be placed for one of the nodes."""
    names, outlooks = (
        [hints[requirements.NODE] for hints in arguments.node],
        _query(conf, arguments, detail=False, apart=True),
    )
    results = list(zip(names, (outlook.volumes for outlook in outlooks), strict=True))
    if arguments.json:
        _print_json({"nodes": [{"name": name, "explanations": volumes} for name, volumes in results]})
    else:
        rows = [
            (
                name,
                [volume.pool for volume in volumes if volume.pool],
                [volume.message for volume in volumes if not volume.pool],
            )
            for name, volumes in results
        ]
        lines = [(name, "\n".join(pools), "\n".join(why)) for name, pools, why in rows]
        tables.show(("node", "pools", "why not"), lines, empty="Nothing")
        _print_ignored(outlooks)
    return min(_status([outlook]) for outlook in outlooks)


def what_if(conf: cfg.ConfigOpts, arguments: argparse.Namespace) -> int:
    """Run ``tonnage what-if``. Return its exit status."""
    outlooks = _query(conf, arguments, changes=_changes(arguments), detail=arguments.detail)
    if arguments.json:
        _print_json({"outlooks": outlooks})
        return _status(outlooks)
    if arguments.detail:
        for outlook in outlooks:
            for explanation in outlook.volumes:
                _print_explanation(explanation, arguments.rows)
    tables.show(("number", "request", "now", "then", "differs"), list(_lines(outlooks)), empty="Nothing")
    for number, outlook in enumerate(outlooks, 1):
        for explanation in outlook.volumes:
            if explanation.pool is None and not arguments.detail:
                print(f"{number}: {explanation.message}")
    _print_ignored(outlooks)
    return _status(outlooks)


def _query(conf: cfg.ConfigOpts, arguments: argparse.Namespace, **question: Any) -> list[SimulationResult]:
    """Query a scheduler. Errors in the question name options of the command line."""
    question["requests"] = _requests(arguments)
    from_file = arguments.file is not None
    target = scheduler_query.QueryTarget(project=arguments.project, url=arguments.url, cloud=arguments.os_cloud)
    try:
        scheduler_query.as_message(question, arguments.project or PROJECT, conf.default_volume_type)
    except errors.InvalidInput as error:
        raise setup.UsageError(_as_options(error.message, from_file)) from None
    try:
        return scheduler_query.query(conf, question, target)
    except errors.InvalidInput as error:
        raise errors.InvalidInput(_as_options(error.message, from_file)) from None


#: Command-line options for the fields of a question: for its changes, and for its request. Requests from a file have no
#: options.
_CHANGES = {
    "default_ratio": "--ratio",
    "ratios": "--ratio",
    "reserved_percentage": "--reserved",
    "reserved_percentages": "--reserved",
    "lost": "--lose",
    "added": "--add",
}
_REQUEST = {
    "volume_type": "--type",
    "availability_zone": "--zone",
    "source_volid": "--source",
    "scheduler_hints": "--hint",
    "extend.volume_id": "--extend",
    "migrate.volume_id": "--migrate",
    "migrate.host": "--to",
    "retype.volume_id": "--retype",
    "retype.new_type": "--type",
}
_FIELD = re.compile(
    r"^(?:requests\[0\]: )?(?:Invalid input for (?:a key of )?)?"
    r"(?:(?:changes|volume|volumes\[\d+\])\.)?(?P<field>(?:(?:extend|migrate|retype)\.)?\w+)"
    r"(?:[.\[][^ :]*)?(?= |: )"
)


def _as_options(message: str, from_file: bool) -> str:
    """Replace the field of a question at the beginning of a message by its option."""
    if from_file and message.startswith("requests"):
        return f"--file: {message}"
    match = _FIELD.match(message)
    option = None if match is None else (_CHANGES if from_file else _CHANGES | _REQUEST).get(match["field"])
    return message if match is None or option is None else option + message[match.end() :]


def _requests(arguments: Any) -> list[Any]:
    if arguments.node and any((arguments.file, arguments.extend, arguments.migrate, arguments.retype)):
        raise setup.UsageError("--node goes with SIZE, a new volume")
    if arguments.file is not None:
        if arguments.size is not None:
            raise setup.UsageError("name a SIZE or --file, not both")
        return arguments.file if isinstance(arguments.file, list) else [arguments.file]
    if arguments.migrate is not None or arguments.retype is not None:
        return [_move(arguments)]
    if arguments.size is None:
        raise setup.UsageError("no request: name a SIZE, or requests with --file")
    if arguments.extend is not None:
        return [{"extend": {"volume_id": arguments.extend, "new_size": arguments.size}}]
    volume = {
        "size": arguments.size,
        "volume_type": arguments.type,
        "availability_zone": arguments.zone,
        "source_volid": arguments.source,
    }
    hints = _hints(arguments.hint)
    hinted = [{**volume, "scheduler_hints": {**hints, **node}} for node in arguments.node or [{}]]
    return [
        {"volume": hinted_volume} if arguments.count is None else {"volumes": [hinted_volume] * arguments.count}
        for hinted_volume in hinted
    ]


def _move(arguments: Any) -> dict[str, Any]:
    """Return the request to migrate or retype a volume."""
    if arguments.size is not None or None not in (arguments.migrate, arguments.retype):
        raise setup.UsageError("name one of SIZE, --migrate and --retype")
    if arguments.migrate is not None:
        return {"migrate": {"volume_id": arguments.migrate, "host": arguments.to}}
    if arguments.type is None:
        raise setup.UsageError("--retype takes the other type as --type")
    policy = arguments.migration_policy
    return {"retype": {"volume_id": arguments.retype, "new_type": arguments.type, "migration_policy": policy}}


def _hints(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the hints. The value of a key that is given more than once is a list."""
    values_by_key: dict[str, list[str]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in values_by_key.items()}


def _changes(arguments: Any) -> dict[str, Any]:
    changes: dict[str, Any] = {"lost": arguments.lose, "added": arguments.add}
    if arguments.calculation is not None:
        changes["calculation"] = arguments.calculation
    for pairs, of_one, of_all in (
        (arguments.ratio, "ratios", "default_ratio"),
        (arguments.reserved, "reserved_percentages", "reserved_percentage"),
    ):
        changes[of_one] = {name: value for name, value in pairs if name}
        changes.update((of_all, value) for name, value in pairs if not name)
    return changes


def _status(outlooks: Sequence[SimulationResult]) -> int:
    refused = any(explanation.pool is None for outlook in outlooks for explanation in outlook.volumes)
    return FOUND if refused else 0


def _print_ignored(outlooks: Sequence[SimulationResult]) -> None:
    """Print each hint and each extra spec without effect once."""
    ignored = [
        words
        for outlook in outlooks
        for volume in outlook.volumes
        for words in (*volume.ignored_hints, *volume.ignored_specs)
    ]
    for words in dict.fromkeys(ignored):
        print(f"Note: {words}")


def _print_json(answer: object) -> None:
    print(msgspec.json.encode(answer).decode())


def _lines(outlooks: Sequence[SimulationResult]) -> Iterator[tuple[object, ...]]:
    for number, outlook in enumerate(outlooks, 1):
        then = outlook.volumes
        now = outlook.unchanged or then
        for index in range(max(len(then), len(now))):
            # All volumes of a group that is refused share one explanation.
            before, after = now[min(index, len(now) - 1)], then[min(index, len(then) - 1)]
            differs = before.pool != after.pool
            yield number, after.request, before.pool or "refused", after.pool or "refused", differs


def _print_explanation(explanation: Explanation, most: int) -> None:
    print(explanation.message)
    rows = explanations.rows(explanation)
    shown = rows[: most or None]
    tables.show_columns(explanations.columns(shown), shown, empty="No pool was looked at")
    for note in explanations.notes(explanation, shown):
        print(note)
    if len(shown) < len(rows):
        print(f"{len(rows) - len(shown)} pool(s) more: --rows 0 shows all")
