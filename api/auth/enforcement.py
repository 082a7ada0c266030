# SPDX-License-Identifier: Apache-2.0
"""Authorization of requests by oslo.policy, with the rules of :mod:`tonnage.api.auth.policies`."""

import logging
import threading
from importlib import metadata

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from tonnage.api.auth import policies
from tonnage.api.http import faults
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)


#: Most verdicts that are kept.
_MOST_VERDICTS = 10_000

#: Errors that oslo.policy raises for policy files that it cannot read, or that do not map names to rules.
_FILE_ERRORS = (cfg.Error, OSError, ValueError, TypeError, AttributeError)


class _Enforcer(policy.Enforcer):
    """An enforcer of oslo.policy that replaces all rules at once.

    oslo.policy's own enforcer checks the files before each rule. While it reloads, it has only the rules of the file
    and rejects the calls of other threads. Here the other threads use the previous rules until the new ones are
    complete.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._loading = threading.local()
        self._complete = policy.Rules()
        super().__init__(conf)

    @property
    def rules(self) -> policy.Rules:
        """The rules that this thread loads, or otherwise the last complete ones."""
        new: policy.Rules | None = getattr(self._loading, "rules", None)
        return self._complete if new is None else new

    @rules.setter
    def rules(self, rules: policy.Rules) -> None:
        self._loading.rules = rules

    def load_rules(self, force_reload: bool = False) -> None:
        """Do nothing; :meth:`reload_files` loads the rules."""

    def reload_files(self) -> None:
        """Load the policy files if they have changed, all of them or none.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` for files that cannot be read as rules.
        """
        try:
            super().load_rules()
            new: policy.Rules | None = getattr(self._loading, "rules", None)
            if new is not None:  # None if nothing changed; another thread may have replaced the rules
                self._complete = new
        except _FILE_ERRORS as error:
            reason = " ".join(str(error).split())
            raise errors.ConfigurationError(
                f"[oslo_policy] policy_file = {self.policy_path or self.policy_file} cannot be read as rules: "
                f"{reason}; it takes lines of YAML with a name and a rule each (those in policy_dirs as well)"
            ) from None
        finally:
            self._loading.rules = None


class _Verdicts:
    """The verdicts by some rules: whether a rule allows a call on a project's object to credentials.

    A check that asks another server may change its mind, so nothing is kept where a rule has one, or one of a plug-in.
    """

    def __init__(self, rules: policy.Rules) -> None:
        self.rules = rules
        self.by_question: dict[tuple[object, ...], bool] = {}
        checks = {entry.name for entry in metadata.entry_points(group="oslo.policy.rule_checks")}
        self._are_fixed = not any(f"{name}:" in str(rule) for rule in rules.values() for name in checks)

    def keep(self, question: tuple[object, ...], verdict: bool) -> None:
        """Keep a verdict. There are few different questions; with many users the first are forgotten together."""
        if self._are_fixed:
            if len(self.by_question) >= _MOST_VERDICTS:
                self.by_question = {}
            self.by_question[question] = verdict


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Policy:
    """The policy of the API. Operators change its rules in the policy file.

    All checks of one request use the same rules.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for a policy file that cannot be read."""
        self.enforcer = _Enforcer(conf)
        self.enforcer.register_defaults(policies.enabled_rules(conf))
        self.enforcer.reload_files()
        self._cache = threading.local()
        self._verdicts = _Verdicts(self.enforcer.rules)
        self._logged_error = ""

    def require(self, identity: RequestContext, rule: str, project_id: str | None = None) -> None:
        """Raise :class:`~tonnage.api.http.faults.Forbidden` unless the rule allows the call.

        ``project_id`` is the owner of the object; without it, the user's own project.
        """
        if not self.allows(identity, rule, project_id):
            raise faults.Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def allows(self, identity: RequestContext, rule: str, project_id: str | None = None) -> bool:
        """Return whether the rule allows the call. No rule allows a call without a project.

        ``project_id`` is the owner of the object; without it, the user's own project.
        """
        if identity.project_id is None:
            # oslo.policy would treat two missing projects as the same project.
            return False
        cache = self._cache
        # A thread checks many rules of a request.
        if getattr(cache, "identity", None) is not identity:
            self._reload_files()
            cache.credentials = dict(identity.to_policy_values())
            cache.key = tuple((name, _hashable(value)) for name, value in cache.credentials.items())
            cache.identity = identity
        project = identity.project_id if project_id is None else project_id
        verdicts = self._verdicts
        if verdicts.rules is not self.enforcer.rules:
            verdicts = self._verdicts = _Verdicts(self.enforcer.rules)
        key = (rule, project, cache.key)
        verdict = verdicts.by_question.get(key)
        if verdict is None:
            verdict = bool(self.enforcer.authorize(rule, {"project_id": project}, cache.credentials))
            verdicts.keep(key, verdict)
        return verdict

    def visible_project(self, identity: RequestContext) -> str | None:
        """Return the project whose objects the user can see, None for all projects.

        Raises :class:`~tonnage.api.http.faults.Forbidden` for a user without a project.
        """
        if self.allows(identity, policies.IS_ADMIN):
            return None
        if identity.project_id is None:
            raise faults.Forbidden("This request needs a project: get a token for one.")
        return identity.project_id

    def _reload_files(self) -> None:
        """Load changed policy files. Log an error in them once, and keep the previous rules."""
        try:
            self.enforcer.reload_files()
        except errors.ConfigurationError as error:
            if self._logged_error != error.message:
                LOG.error("The rules stay as they were: %s", error.message)
            self._logged_error = error.message
        else:
            self._logged_error = ""
