# SPDX-License-Identifier: Apache-2.0
"""Whether somebody may do something, by oslo.policy and the rules of :mod:`tonnage.api.auth.policies`."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from tonnage.api.auth import policies
from tonnage.capacity import errors

LOG = logging.getLogger(__name__)


class Forbidden(errors.TonnageError):
    """The rules do not let the asker do this."""


#: What oslo.policy raises for files that it cannot read, or that are no rules by names.
_UNREADABLE = (cfg.Error, OSError, ValueError, TypeError, AttributeError)


class _Enforcer(policy.Enforcer):
    """oslo.policy's, which would look for files again before each rule that it is asked about.

    It would also have no rules but those of a file until it has added the others, and refuse what is asked in other
    threads meanwhile. Here those are answered by the rules of before, until a thread has got all of the new ones.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._new = threading.local()
        self._complete = policy.Rules()
        super().__init__(conf)

    @property
    def rules(self) -> policy.Rules:
        """The rules that count."""
        new: policy.Rules | None = getattr(self._new, "rules", None)
        return self._complete if new is None else new

    @rules.setter
    def rules(self, rules: policy.Rules) -> None:
        self._new.rules = rules

    def load_rules(self, force_reload: bool = False) -> None:
        """Do nothing."""

    def look_for_files(self) -> None:
        """Take over what operators have changed, all of it or nothing.

        Raises :class:`~tonnage.capacity.errors.ConfigurationError` for files that are no rules.
        """
        try:
            super().load_rules()
            new: policy.Rules | None = getattr(self._new, "rules", None)
            if new is not None:  # else another thread may just have got some
                self._complete = new
        except _UNREADABLE as error:
            said = " ".join(str(error).split())
            raise errors.ConfigurationError(
                f"[oslo_policy] policy_file = {self.policy_path or self.policy_file} cannot be read as rules: {said}; "
                "it takes lines of YAML with a name and a rule each (those in policy_dirs as well)"
            ) from None
        finally:
            self._new.rules = None


class Policy:
    """Answers whether somebody may do something. Operators change rules in the policy file.

    What one request asks about is answered by the same rules.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for a policy file that cannot be read."""
        self._enforcer = _Enforcer(conf)
        self._enforcer.register_defaults(policies.list_rules())
        self._enforcer.look_for_files()
        self._asking = threading.local()
        self._said = ""

    def require(self, identity: RequestContext, rule: str, project_id: str | None = None) -> None:
        """Raise :class:`Forbidden` unless the rule allows it.

        ``project_id`` is whose the thing is; without it, the asker's own project.
        """
        if not self.allows(identity, rule, project_id):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")

    def allows(self, identity: RequestContext, rule: str, project_id: str | None = None) -> bool:
        """Tell whether the rule allows it. To those who ask for no project none does, as all are about projects."""
        if identity.project_id is None:
            # oslo.policy would take two projects that are missing for the same one.
            return False
        return bool(self._enforcer.authorize(rule, _target(identity, project_id), self._credentials(identity)))

    def reach(self, identity: RequestContext) -> str | None:
        """Return the project whose things the asker can see, None for those of all projects.

        Raises :class:`Forbidden` for somebody who asks for no project.
        """
        if self.allows(identity, policies.IS_ADMIN):
            return None
        if identity.project_id is None:
            raise Forbidden("Whoever asks has to ask for a project: get a token for one.")
        return identity.project_id

    def _credentials(self, identity: RequestContext) -> dict[str, Any]:
        """Return what rules know of the asker. Of each request it is made once, as its thread asks many things."""
        asking = self._asking
        if getattr(asking, "identity", None) is not identity:
            self._look_for_files()
            asking.identity, asking.credentials = identity, dict(identity.to_policy_values())
        credentials: dict[str, Any] = asking.credentials
        return credentials

    def _look_for_files(self) -> None:
        """Take over what operators have changed. What they have spoiled is said once, and changes nothing."""
        try:
            self._enforcer.look_for_files()
        except errors.ConfigurationError as error:
            if self._said != error.message:
                LOG.error("The rules stay as they were: %s", error.message)
            self._said = error.message
        else:
            self._said = ""


def _target(identity: RequestContext, project_id: str | None) -> Mapping[str, Any]:
    return {"project_id": identity.project_id if project_id is None else project_id}
