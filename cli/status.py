# SPDX-License-Identifier: Apache-2.0
"""``tonnage-status``: checks whether an installation is ready for an upgrade and consistent."""

import sys
from collections.abc import Callable

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from tonnage import enabled_extensions
from tonnage.api import options as api_options
from tonnage.capacity import errors, plugin_errors
from tonnage.cli import setup, tls_verification, unknown_options
from tonnage.ledger.catalog import volume_types
from tonnage.ledger.db import database, durability, schema, sqlite_file, text_columns
from tonnage.ledger.db import options as database_options
from tonnage.ledger.inventory import backends, capacity_figures, pending_claims, service_options
from tonnage.ledger.locks import backend_notices, heartbeats
from tonnage.ledger.repair import consistency_check
from tonnage.rpc import options as rpc_options

PROG = "tonnage-status"

#: Exit status if the checks could not run, as in other projects. Statuses 0 to 2 are results of the checks.
_COULD_NOT_CHECK = 255

#: The result of a check that needs the latest reports of schedulers and agents.
_UNKNOWN = "nobody can tell {}: the ledger cannot be written, so no report is recorded"

#: Seconds after which an unfinished operation causes a warning.
_LONG = 3600.0


class Checks(upgradecheck.UpgradeCommands):
    """The checks. They change nothing."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf

    def check(self) -> upgradecheck.Code:
        """Run the checks. If the schema is outdated, run only the first one."""
        ready = self._schema().code is not upgradecheck.Code.FAILURE
        self._upgrade_checks = self._ALL if ready else self._ALL[:1]
        return super().check()

    def _schema(self) -> upgradecheck.Result:
        try:
            branches = schema.branches(database.connect(self._conf).engine, enabled_extensions.enabled(self._conf))
        except (sqlite_file.NoDatabase, sqlite_file.LeftLog) as error:
            return _failure(error.message)
        for branch in branches:
            if branch.is_behind:
                return _failure(
                    f"{branch.text}, this release needs {branch.head}: run 'tonnage-manage db sync', with the "
                    "schedulers of the release before still running"
                )
        later = [f"{branch.text}, of a later release than these programs" for branch in branches if branch.is_ahead]
        return _warning("; ".join(later)) if later else _success()

    def _writes(self) -> upgradecheck.Result:
        """Check that a write succeeds. If none does, backends and schedulers that are up seem to be down."""
        refusal = self._refusal()
        return _success() if refusal is None else _failure(f"{refusal}; requests fail until it can")

    def _refusal(self) -> str | None:
        """Return why the ledger cannot be written, None if it can."""
        try:
            database.connect(self._conf).require_writable()
        except errors.DatabaseUnreachable as error:
            return error.message
        return None

    def _texts(self) -> upgradecheck.Result:
        """Check that all text columns take any text and tell all texts apart."""
        with database.connect(self._conf).reading() as session:
            faults = text_columns.find_faults(session.connection(), enabled_extensions.enabled(self._conf))
        return _failure(text_columns.describe(faults)) if faults else _success()

    def _rules(self) -> upgradecheck.Result:
        """Check that all schedulers have the same defaults (spec "Over Subscription in Thin Provisioning")."""
        if any(row.observed for row in self._backends()):
            return _success()  # the schedulers are Cinder's, and have its options
        up = [row for row in self._schedulers() if row.up(self._conf.service_down_time)]
        for option, values in (
            ("max_over_subscription_ratio", {row.host: row.default_ratio for row in up}),
            ("over_provisioning_calculation", {row.host: row.calculation for row in up}),
        ):
            if len(set(values.values()) - {None}) > 1:
                listed = ", ".join(f"{host}: {value}" for host, value in sorted(values.items()))
                return _failure(f"option {option} has to be the same for all schedulers; {listed}")
        if not up and self._refusal() is not None:
            return _warning(_UNKNOWN.format("which schedulers are up"))
        if not up:
            return _warning("no scheduler is up, so nobody can tell whether they agree")
        return _success()

    def _silent(self) -> upgradecheck.Result:
        down_time = self._conf.service_down_time
        down = [
            f"{row.name} ({backend_notices.state_reason(row.silence, row.notice, down_time)})"
            for row in self._backends()
            if not capacity_figures.is_up(row.silence, down_time)
        ]
        if down and self._refusal() is not None:
            return _warning(_UNKNOWN.format("which backends are down"))
        return _warning(f"these backends are down: {', '.join(sorted(down))}") if down else _success()

    def _pending(self) -> upgradecheck.Result:
        with database.connect(self._conf).reading() as session:
            claims = [claim for claim in pending_claims.load(session) if claim.age > _LONG]
        if claims:
            listed = ", ".join(
                f"{claim.verb} of volume {claim.volume_id} in {claim.pool_name}" for claim in claims[:10]
            )
            observed = {row.id for row in self._backends() if row.observed}
            advice = (
                "; a volume of Cinder in error keeps its capacity until it is deleted"
                if any(claim.backend_id in observed for claim in claims)
                else ""
            )
            return _warning(f"{len(claims)} operation(s) have not ended for an hour: {listed}{advice}")
        return _success()

    def _ledger(self) -> upgradecheck.Result:
        drift = consistency_check.check(database.connect(self._conf)).drift
        if drift:
            listed = ", ".join(f"{finding.cause} of {finding.where} {finding.subject}" for finding in drift[:10])
            return _warning(
                f"the ledger is wrong in {len(drift)} place(s): {listed}; see 'tonnage-manage ledger check'"
            )
        return _success()

    def _options(self) -> upgradecheck.Result:
        try:
            lines = unknown_options.find(self._conf)
        except plugin_errors.CAUGHT as error:  # any installed plug-in can raise any error
            return _warning(f"the names of options could not be checked: {plugin_errors.described(error)}")
        return _warning("; ".join(lines[:10])) if lines else _success()

    def _default_type(self) -> upgradecheck.Result:
        name = self._conf.default_volume_type
        try:
            with database.connect(self._conf).reading() as session:
                if name:
                    volume_types.find(session, name)
        except errors.NotFound:
            return _warning(
                f"option default_volume_type names {name!r}, and there is no such volume type: requests for volumes "
                "without a type are refused; create the type, or change the option"
            )
        return _success()

    def _verification(self) -> upgradecheck.Result:
        lines = tls_verification.find(self._conf)
        return _warning("; ".join(lines)) if lines else _success()

    def _durability(self) -> upgradecheck.Result:
        with database.connect(self._conf).reading() as session:
            weaknesses = durability.find_weaknesses(session.connection())
        return _warning("; ".join(weaknesses)) if weaknesses else _success()

    def _backends(self) -> list[backends.BackendRow]:
        with database.connect(self._conf).reading() as session:
            return backends.load_backends(session)

    def _schedulers(self) -> list[heartbeats.ServiceRow]:
        with database.connect(self._conf).reading() as session:
            return [row for row in heartbeats.load(session) if row.binary == heartbeats.SCHEDULER]

    _ALL: tuple[tuple[str, Callable[..., upgradecheck.Result]], ...] = (
        ("Database schema", _schema),
        ("Ledger takes writes", _writes),
        ("Text columns of the database", _texts),
        ("Rules of the schedulers", _rules),
        ("Backends that are down", _silent),
        ("Operations that do not end", _pending),
        ("Ledger", _ledger),
        ("Options that do not exist", _options),
        ("Default volume type", _default_type),
        ("Durability of the database", _durability),
        ("Verification of servers", _verification),
    )


def _success() -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.SUCCESS)


def _warning(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.WARNING, details)


def _failure(details: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.FAILURE, details)


def _register(conf: cfg.ConfigOpts) -> None:
    upgradecheck.register_cli_options(conf, Checks(conf))


@setup.clean_exit(PROG, _COULD_NOT_CHECK)
def main() -> int:
    """Run the checks."""
    conf = cfg.CONF
    options = [database_options, service_options, api_options]
    register = [rpc_options.register_with_drivers, *(module.register for module in options), _register]
    setup.configure(conf, sys.argv[1:], PROG, register, daemon=False, with_extensions=True)
    # The library reads the option for JSON output from this variable.
    upgradecheck.CONF = conf
    return int(conf.command.action_fn())
