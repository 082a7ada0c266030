# SPDX-License-Identifier: Apache-2.0
"""``/csi-drivers`` and ``/csi-capacity``: the storage of Kubernetes clusters.

Queries return the nodes that take volumes of this storage.
"""

import falcon

from tonnage.api.context.resource_context import ResourceContext
from tonnage.api.http.annotations import operation
from tonnage.api.http.http_request import Request
from tonnage.extensions.kubernetes.api import csi_bodies as bodies
from tonnage.extensions.kubernetes.api import policy_rules
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries

_MAX_NAME_LENGTH = 253

#: The pattern that :func:`_require_no_trailing_space` checks, for the OpenAPI document.
_NO_TRAILING_SPACE = "[^ ]$"
_DRIVER = {"driver": _NO_TRAILING_SPACE}
_HOLDER = {"holder": _NO_TRAILING_SPACE}

#: Patches with other semantics: a merge patch replaces lists, and a JSON patch is no object.
_UNSUPPORTED_PATCHES = frozenset({"application/merge-patch+json", "application/json-patch+json"})


def _require_no_trailing_space(name: str) -> None:
    """Raise HTTPBadRequest for a trailing space, which MariaDB ignores in comparisons of names."""
    if name.endswith(" "):
        raise falcon.HTTPBadRequest(description=f"{name[:_MAX_NAME_LENGTH]!r} ends with a space, and no name does.")


class Drivers:
    """``/csi-drivers``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.CsiDrivers})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List drivers, without their storage."""
        self._context.policy.require(req.context.identity, policy_rules.GET_ALL)
        with self._context.database.reading() as session:
            drivers = driver_rows.list_all(session)
        resp.media = bodies.CsiDrivers([bodies.driver(driver) for driver in drivers])


class Driver:
    """``/csi-drivers/{driver}``."""

    def __init__(self, context: ResourceContext) -> None:
        self._context = context

    @operation({200: bodies.CsiDriverDetail}, names=_DRIVER)
    def on_get(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Show a driver with its storage."""
        self._context.policy.require(req.context.identity, policy_rules.GET)
        _require_no_trailing_space(driver)
        with self._context.database.reading(snapshot=True) as session:
            stored_driver = driver_rows.find(session, driver)
        resp.media = bodies.driver_detail(stored_driver)

    @operation({200: bodies.CsiDriver}, bodies=(DriverPatch,), names=_DRIVER, errors=(409,))
    def on_patch(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Apply a strategic merge patch to a driver; create the driver if it is missing and the body has a ``spec``.

        Lists are merged by ``storageClassName`` and ``name``. ``null`` removes a value, ``"$patch": "delete"`` an
        element. With ``metadata.resourceVersion`` the patch applies only if the driver has that version.
        """
        self._context.policy.require(req.context.identity, policy_rules.UPDATE)
        _require_no_trailing_space(driver)
        media_type = (req.content_type or "").partition(";")[0].strip().lower()
        if media_type in _UNSUPPORTED_PATCHES:
            raise falcon.HTTPUnsupportedMediaType(
                description=f"Content-Type is {media_type!r}: expected application/strategic-merge-patch+json."
            )
        change = self._context.bodies.read(req, DriverPatch)
        if len(driver) > _MAX_NAME_LENGTH:
            raise falcon.HTTPBadRequest(description=f"The driver's name is longer than {_MAX_NAME_LENGTH} characters.")
        if change.metadata is not None and change.metadata.name not in (None, driver):
            raise falcon.HTTPBadRequest(description=f"metadata.name is another one than {driver!r}.")
        resp.media = bodies.driver(self._context.database.run(driver_rows.patch, driver, change))

    @operation({204: None}, names=_DRIVER)
    def on_delete(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Delete a driver with its pools and the claims on them."""
        self._context.policy.require(req.context.identity, policy_rules.DELETE)
        _require_no_trailing_space(driver)
        self._context.database.remove(driver_rows.delete, driver)
        resp.status = falcon.HTTP_204


class Fit:
    """``/csi-capacity/fit``."""

    def __init__(self, context: ResourceContext, queries: NodeQueries) -> None:
        self._context, self._queries = context, queries

    @operation({200: bodies.FitResponse}, bodies=(bodies.FitRequest,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Return the nodes that take some volumes together, and the reasons for the others.

        With a ``claim``, the node with the largest remaining fraction is chosen and capacity for the volumes is claimed
        there. The claims replace the holder's former ones, and count until they are released or the lease ends.
        """
        self._context.policy.require(req.context.identity, policy_rules.FIT)
        fit_request = self._context.bodies.read(req, bodies.FitRequest)
        volumes, nodes = fit_request.to_volumes(), fit_request.to_nodes()
        if fit_request.claim is None:
            resp.media = bodies.fit_response(self._queries.decide(volumes, nodes), None, None)
            return
        self._context.policy.require(req.context.identity, policy_rules.CLAIM)
        decision, node_claim = self._queries.claim(volumes, nodes, fit_request.claim.holder, fit_request.claim.lease)
        resp.media = bodies.fit_response(decision, fit_request.claim.holder, node_claim)


class Claims:
    """``/csi-capacity/claims/{holder}``."""

    def __init__(self, context: ResourceContext, queries: NodeQueries) -> None:
        self._context, self._queries = context, queries

    @operation({200: bodies.HolderClaims}, names=_HOLDER)
    def on_get(self, req: Request, resp: falcon.Response, holder: str) -> None:
        """Show the active claims of a holder."""
        self._context.policy.require(req.context.identity, policy_rules.CLAIM)
        _require_no_trailing_space(holder)
        with self._context.database.reading() as session:
            claims = capacity_claims.list_for_holder(session, holder)
        resp.media = bodies.holder_claims(holder, claims)

    @operation({204: None}, names=_HOLDER)
    def on_delete(self, req: Request, resp: falcon.Response, holder: str) -> None:
        """Release the claims of a holder. Without claims nothing happens."""
        self._context.policy.require(req.context.identity, policy_rules.CLAIM)
        _require_no_trailing_space(holder)
        self._queries.release(holder)
        resp.status = falcon.HTTP_204
