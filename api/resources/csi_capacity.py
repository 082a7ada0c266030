# SPDX-License-Identifier: Apache-2.0
"""``/csi-drivers`` and ``/csi-capacity``: the storage of Kubernetes clusters, and which nodes take volumes of it."""

import falcon

from tonnage.api.auth import policies
from tonnage.api.http.request import Request
from tonnage.api.openapi.annotations import operation
from tonnage.api.resource_context import Tools
from tonnage.api.schemas import csi_bodies as bodies
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.node_queries import Capacity

_LONGEST = 253

#: What :func:`_refuse_padded` does, for those who read the OpenAPI document.
_NOT_PADDED = "[^ ]$"
_DRIVER = {"driver": _NOT_PADDED}
_HOLDER = {"holder": _NOT_PADDED}

#: Patches by other rules: what they do not name goes, or they are no object at all.
_OTHER_PATCHES = frozenset({"application/merge-patch+json", "application/json-patch+json"})


def _refuse_padded(name: str) -> None:
    """Refuse a name that a database may take for another one: MariaDB compares texts without spaces at their end."""
    if name.endswith(" "):
        raise falcon.HTTPBadRequest(description=f"{name[:_LONGEST]!r} ends with a space, and no name does.")


class Drivers:
    """``/csi-drivers``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: bodies.CsiDrivers})
    def on_get(self, req: Request, resp: falcon.Response) -> None:
        """List drivers, without their storage."""
        self._tools.policy.require(req.context.identity, policies.CSI_GET_ALL)
        with self._tools.database.reading() as session:
            found = driver_rows.every(session)
        resp.media = bodies.CsiDrivers([bodies.driver(each) for each in found])


class Driver:
    """``/csi-drivers/{driver}``."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @operation({200: bodies.WholeCsiDriver}, names=_DRIVER)
    def on_get(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Show a driver with its storage."""
        self._tools.policy.require(req.context.identity, policies.CSI_GET)
        _refuse_padded(driver)
        with self._tools.database.reading(snapshot=True) as session:
            found = driver_rows.find(session, driver)
        resp.media = bodies.whole_driver(found)

    @operation({200: bodies.CsiDriver}, bodies=(DriverPatch,), names=_DRIVER, errors=(409,))
    def on_patch(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Change a driver, as a strategic merge patch does; it is made if it is not there and the body has a ``spec``.

        Lists are merged by ``storageClassName`` and ``name``; ``null`` takes a value away, ``"$patch": "delete"`` an
        element. With ``metadata.resourceVersion`` only that version is changed.
        """
        self._tools.policy.require(req.context.identity, policies.CSI_UPDATE)
        _refuse_padded(driver)
        kind = (req.content_type or "").partition(";")[0].strip().lower()
        if kind in _OTHER_PATCHES:
            raise falcon.HTTPUnsupportedMediaType(
                description=f"Content-Type is {kind!r}: expected application/strategic-merge-patch+json."
            )
        change = self._tools.bodies.read(req, DriverPatch)
        if len(driver) > _LONGEST:
            raise falcon.HTTPBadRequest(description=f"The driver's name is longer than {_LONGEST} characters.")
        if change.metadata is not None and change.metadata.name not in (None, driver):
            raise falcon.HTTPBadRequest(description=f"metadata.name is another one than {driver!r}.")
        resp.media = bodies.driver(self._tools.database.run(driver_rows.patch, driver, change))

    @operation({204: None}, names=_DRIVER)
    def on_delete(self, req: Request, resp: falcon.Response, driver: str) -> None:
        """Remove a driver, its figures, and what is claimed of them."""
        self._tools.policy.require(req.context.identity, policies.CSI_DELETE)
        _refuse_padded(driver)
        self._tools.database.remove(driver_rows.delete, driver)
        resp.status = falcon.HTTP_204


class Fit:
    """``/csi-capacity/fit``."""

    def __init__(self, tools: Tools, capacity: Capacity) -> None:
        self._tools, self._capacity = tools, capacity

    @operation({200: bodies.Answer}, bodies=(bodies.Question,))
    def on_post(self, req: Request, resp: falcon.Response) -> None:
        """Tell which nodes take some volumes together, and why the others do not.

        With a ``claim`` the node where most is left is chosen and what the volumes need there is held, instead of what
        the holder had before, until it is given back or the lease ends.
        """
        self._tools.policy.require(req.context.identity, policies.CSI_FIT)
        asked = self._tools.bodies.read(req, bodies.Question)
        volumes, nodes = asked.wanted(), asked.among()
        if asked.claim is None:
            resp.media = bodies.answer(self._capacity.ask(volumes, nodes), None, None)
            return
        self._tools.policy.require(req.context.identity, policies.CSI_CLAIM)
        decision, promise = self._capacity.claim(volumes, nodes, asked.claim.holder, asked.claim.lease)
        resp.media = bodies.answer(decision, asked.claim.holder, promise)


class Claims:
    """``/csi-capacity/claims/{holder}``."""

    def __init__(self, tools: Tools, capacity: Capacity) -> None:
        self._tools, self._capacity = tools, capacity

    @operation({200: bodies.Held}, names=_HOLDER)
    def on_get(self, req: Request, resp: falcon.Response, holder: str) -> None:
        """Show what somebody has claimed and not given back, until its lease ends."""
        self._tools.policy.require(req.context.identity, policies.CSI_CLAIM)
        _refuse_padded(holder)
        with self._tools.database.reading() as session:
            found = capacity_claims.of_holder(session, holder)
        resp.media = bodies.held(holder, found)

    @operation({204: None}, names=_HOLDER)
    def on_delete(self, req: Request, resp: falcon.Response, holder: str) -> None:
        """Give back what somebody has claimed; nothing happens if there is nothing."""
        self._tools.policy.require(req.context.identity, policies.CSI_CLAIM)
        _refuse_padded(holder)
        self._capacity.release(holder)
        resp.status = falcon.HTTP_204
