# SPDX-License-Identifier: Apache-2.0
"""A client of the REST API for tests."""

from typing import Any

import requests
from requests import adapters

from tests.functional.deployment.configuration import Credentials
from tests.servers.base import wait_for

#: Seconds until a request must be answered.
_TIMEOUT = 90.0
#: The microversion that has the keys of Tonnage.
_VERSION = "3.73"


class RestClient:
    """Plain HTTP requests to the API at ``url``. Many threads may share it."""

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        self.url, self._project_url = url, f"{url}/v3/{credentials.project_id if credentials else 'demo'}"
        self._session = requests.Session()
        if credentials is not None:
            self._session.headers["X-Auth-Token"] = credentials.token
        self._session.mount("http://", adapters.HTTPAdapter(pool_maxsize=64))

    def close(self) -> None:
        self._session.close()

    def get(self, path: str, version: str = _VERSION, **query: Any) -> Any:
        """Return the JSON body at a path; fail if the status is not 200.

        A 503 because no scheduler answered is tried again, three times in all.
        """
        for _ in range(3):
            answer = self.request("GET", path, version=version, params=query)
            if answer.status_code != 503 or "no scheduler answered" not in answer.text:
                break
        assert answer.status_code == 200, answer.text
        return answer.json()

    def request(
        self, method: str, path: str, body: Any = None, version: str = _VERSION, **more: Any
    ) -> requests.Response:
        """Send any request and return the answer with any status."""
        headers = {"OpenStack-API-Version": f"volume {version}"}
        return self._session.request(
            method, f"{self._project_url}/{path}", json=body, headers=headers, timeout=_TIMEOUT, **more
        )

    def is_healthy(self) -> bool:
        """Return whether the health check is answered with 200."""
        try:
            return self._session.get(f"{self.url}/healthcheck", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def request_volume(self, size: int, kind: str | None = None) -> requests.Response:
        """Request a volume of ``size`` GiB of the volume type ``kind``, and return the answer with any status."""
        return self.request("POST", "volumes", {"volume": {"size": size, "volume_type": kind}})

    def create(self, size: int, kind: str | None = None) -> str:
        """Request a volume, which must be accepted, and return its id."""
        answer = self.request_volume(size, kind)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["volume"]["id"])

    def refusal(self, size: int, kind: str | None = None) -> dict[str, Any]:
        """Request a volume, which must be refused, and return the refusal."""
        answer = self.request_volume(size, kind)
        assert answer.status_code == 409, answer.text
        return dict(answer.json()["conflictingRequest"])

    def volume(self, volume_id: str) -> dict[str, Any]:
        return dict(self.get(f"volumes/{volume_id}")["volume"])

    def volumes(self) -> list[dict[str, Any]]:
        return list(self.get("volumes/detail")["volumes"])

    def wait_until_available(self, volume_id: str) -> dict[str, Any]:
        """Wait for the end of a creation or extension, which must succeed, and return the volume."""

        def settled() -> dict[str, Any] | None:
            volume = self.volume(volume_id)
            return None if volume["status"] in ("creating", "extending") else volume

        volume: dict[str, Any] = wait_for(settled, f"volume {volume_id} is available")
        assert volume["status"] == "available", volume["status_reason"]
        return volume

    def extend(self, volume_id: str, size: int) -> requests.Response:
        return self.request("POST", f"volumes/{volume_id}/action", {"os-extend": {"new_size": size}})

    def delete(self, *volume_ids: str) -> None:
        """Delete volumes and wait until they are gone."""
        for volume_id in volume_ids:
            assert self.request("DELETE", f"volumes/{volume_id}").status_code == 202
        for volume_id in volume_ids:
            wait_for(
                lambda: self.request("GET", f"volumes/{volume_id}").status_code == 404,  # noqa: B023
                f"volume {volume_id} is deleted",
            )

    def create_type(self, name: str, **extra_specs: str) -> str:
        """Create a volume type, with ``__`` for each colon in its extra specs, and return its name."""
        specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
        answer = self.request("POST", "types", {"volume_type": {"name": name, "extra_specs": specs}})
        assert answer.status_code == 200, answer.text
        return name

    def pools(self) -> dict[str, dict[str, Any]]:
        """Return the capabilities of each pool by its full name."""
        found = self.get("scheduler-stats/get_pools", detail="true")["pools"]
        return {pool["name"]: pool["capabilities"] for pool in found}

    def headroom(self, pool: str, kind: str) -> int:
        """Return the size in GiB of the largest volume, ``thin`` or ``thick``, that a pool accepts."""
        found = self.get("scheduler-stats/get_pools", _VERSION, detail="true", name=pool)["pools"]
        return next(
            int(factors["maximum_volume_size"])
            for factors in found[0]["capacity_factors"]
            if factors["provisioned_type"] == kind
        )
