# SPDX-License-Identifier: Apache-2.0
"""A fake Kubernetes API server with the resources that Tonnage uses, behind a real socket.

Tests set the nodes, storage classes and claims. ``CSIStorageCapacity`` objects are created, replaced and deleted by the
rules of the API: names are unique, the resource version must be current, class and topology cannot change. Pending pods
can be watched, nodes, and ``CSIStorageCapacity`` objects of all namespaces.
"""

import contextlib
import itertools
import json
import pathlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import server
from types import TracebackType
from typing import Any, Self
from urllib import parse

CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims/{}"
VOLUMES = "/api/v1/persistentvolumes/{}"
SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1/namespaces/{}/volumesnapshots/{}"
PODS = "/api/v1/pods"
PENDING_PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

_CAPACITIES = re.compile(
    r"/apis/storage\.k8s\.io/(?P<version>v[^/]+)/namespaces/(?P<namespace>[^/]+)/csistoragecapacities(?:/(?P<name>.+))?"
)
_ALL_CAPACITIES = re.compile(r"/apis/storage\.k8s\.io/(?P<version>v[^/]+)/csistoragecapacities")
_POD = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class _Refused(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class KubeApi:
    """The server, at ``url``. Use it as a context manager.

    ``nodes`` maps node names to labels, ``capacities`` the names of ``CSIStorageCapacity`` objects to the objects.
    ``asked`` has the paths of all reads, ``accepted`` the Accept header of each path, ``written`` the method and the
    object name of each write, ``watched`` the resource version at which each watch of pods began. A method in
    ``failing`` is answered with that status. ``before_write`` is called at each write, which waits for it, and
    ``before_read`` with the path of each read. ``version`` is the API version of ``CSIStorageCapacity`` objects:
    v1alpha1 drops unknown fields. Lists from the cache (resource version 0) lack the pods in ``uncached_pods``, as
    those of an API server that lags behind another one do.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, str]] = {}
        self.capacities: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.accepted: dict[str, str] = {}
        self.written: list[tuple[str, str]] = []
        self.failing: dict[str, int] = {}
        self.before_write: Callable[[], object] = lambda: None
        self.before_read: Callable[[str], object] = lambda path: None
        self.version = "v1"
        self.watched: list[int] = []
        self.uncached_pods: set[str] = set()
        self._objects: dict[str, dict[str, Any]] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self._events: dict[str, list[tuple[int, dict[str, Any]]]] = {PODS: [], NODES: []}
        self._forgotten = 0
        self._capacity_events: list[tuple[int, dict[str, Any]]] = []
        self._ends = 0
        self._versions = itertools.count(1)
        self._lock = threading.Condition()
        self._server = server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_watches()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kubeconfig(self, folder: pathlib.Path) -> str:
        """Write a kubeconfig file for this server, and return its path."""
        path = folder / "kubeconfig"
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        path.write_text(json.dumps(settings), encoding="utf-8")
        return str(path)

    def add_node(self, name: str, **labels: str) -> None:
        """Add a node, or change its labels. ``_`` in label names stands for ``/``."""
        with self._lock:
            kind = "MODIFIED" if name in self.nodes else "ADDED"
            self.nodes[name] = {key.replace("_", "/"): value for key, value in labels.items()}
            self._add_event(NODES, kind, {"metadata": {"name": name, "labels": self.nodes[name]}})

    def remove_node(self, name: str) -> None:
        """Delete a node."""
        with self._lock:
            self._add_event(NODES, "DELETED", {"metadata": {"name": name, "labels": self.nodes.pop(name)}})

    def add_object(self, path: str, **body: Any) -> None:
        """Add any object, or a list of objects, at a path."""
        self._objects[path] = body

    def remove_object(self, path: str) -> None:
        """Delete an object that was added at a path."""
        del self._objects[path]

    def add_class(
        self, name: str, driver: str, mode: str = "WaitForFirstConsumer", parameters: Mapping[str, str] | None = None
    ) -> None:
        """Add a storage class."""
        self._objects[f"{CLASSES}/{name}"] = {
            "metadata": {"name": name},
            "provisioner": driver,
            "volumeBindingMode": mode,
            **({} if parameters is None else {"parameters": parameters}),
        }

    def add_pod(
        self,
        name: str,
        uid: str,
        phase: str = "Pending",
        node: str | None = None,
        claims: Sequence[str] = (),
        nominated: str | None = None,
    ) -> None:
        """Add a pod with claims to the default namespace, or change it.

        ``nominated`` is the node from which kube-scheduler evicts other pods for it.
        """
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
        with self._lock:
            before = self._pods.get(name)
            self._pods[name] = {
                "metadata": {"name": name, "namespace": "default", "uid": uid, **self._version()},
                "spec": {"containers": [], "volumes": volumes, **({} if node is None else {"nodeName": node})},
                "status": {"phase": phase, **({} if nominated is None else {"nominatedNodeName": nominated})},
            }
            self._record_event(before, self._pods[name])

    def remove_pod(self, name: str) -> None:
        """Delete a pod."""
        with self._lock:
            self._record_event(self._pods.pop(name), None)

    def remove_claim(self, name: str) -> None:
        """Delete a claim."""
        del self._objects[CLAIMS.format("default", name)]

    def end_watches(self, *, forget: bool = False) -> None:
        """End all watches, as a real server does at times. With ``forget`` the events so far are lost."""
        with self._lock:
            self._ends += 1
            if forget:
                self._forgotten = next(self._versions)
            self._lock.notify_all()

    def _record_event(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Record the event for watches of pending pods. They see a pod that is no longer pending as deleted."""
        was, is_now = (each is not None and each["status"]["phase"] == "Pending" for each in (before, after))
        if not was and not is_now:
            return
        kind = ("MODIFIED" if was else "ADDED") if is_now else "DELETED"
        shown: Any = after if is_now else before
        self._add_event(PODS, kind, {"kind": "Pod", "apiVersion": "v1", **shown})

    def _add_event(self, path: str, kind: str, shown: dict[str, Any]) -> None:
        version = next(self._versions)
        shown = {**shown, "metadata": {**shown["metadata"], "resourceVersion": str(version)}}
        self._events[path].append((version, {"type": kind, "object": shown}))
        self._lock.notify_all()

    def watch(self, path: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the events of pending pods, or of nodes, after a resource version, until the server ends the watch."""
        assert path == NODES or query["fieldSelector"] == "status.phase=Pending", query
        since, ends, at, events = int(query["resourceVersion"]), self._ends, 0, self._events[path]
        if path == PODS:
            self.watched.append(since)
        if since < self._forgotten:
            words = f"too old resource version: {since} ({self._forgotten})"
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": words}
            yield {"type": "ERROR", "object": {**status, "reason": "Expired", "code": 410}}
            return
        if query.get("allowWatchBookmarks"):
            said = {"resourceVersion": str(since), "creationTimestamp": None}
            bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": said, "spec": {"containers": None}, "status": {}}
            yield {"type": "BOOKMARK", "object": bookmark}
        while True:
            with self._lock:
                while self._ends == ends and len(events) == at:
                    self._lock.wait()
                if self._ends != ends:
                    return
                news, at = events[at:], len(events)
            yield from (event for version, event in news if version > since)

    def add_claim(
        self,
        name: str,
        size: str,
        storage_class: str | None,
        *,
        bound: bool = False,
        node: str | None = None,
        annotations: Mapping[str, str] | None = None,
        source: Mapping[str, Any] | None = None,
        made: str = "2026-11-20T12:00:00Z",
    ) -> None:
        """Add a claim to the default namespace, or change it.

        ``node`` is the selected node for its volume, ``source`` its dataSource, ``made`` the time of its creation.
        """
        notes = {**(annotations or {}), **({} if node is None else {"volume.kubernetes.io/selected-node": node})}
        self._objects[CLAIMS.format("default", name)] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "creationTimestamp": made,
                **({"annotations": notes} if notes else {}),
            },
            "spec": {
                **({} if source is None else {"dataSource": source, "dataSourceRef": source}),
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                **({} if storage_class is None else {"storageClassName": storage_class}),
                **({"volumeName": f"pv-{name}"} if bound else {}),
            },
            "status": {"phase": "Bound" if bound else "Pending"},
        }

    def add_volume(self, name: str, **labels: str) -> None:
        """Add the volume of a bound claim, which nodes with these labels reach; without labels all do."""
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [at]} for key, at in labels.items()]}]
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if labels else {}
        spec = {"capacity": {"storage": "1Gi"}, "csi": {"driver": "disk.example.com", "volumeHandle": name}, **affinity}
        self._objects[VOLUMES.format(f"pv-{name}")] = {"metadata": {"name": f"pv-{name}"}, "spec": spec}

    def add_snapshot(self, name: str, claim: str | None, made: str = "2026-11-21T12:00:00Z") -> None:
        """Add a snapshot of a claim's volume, or with None one that was made outside of the cluster."""
        source = (
            {"volumeSnapshotContentName": "made-by-hand"} if claim is None else {"persistentVolumeClaimName": claim}
        )
        self._objects[SNAPSHOTS.format("default", name)] = {
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": made},
            "spec": {"source": source},
            "status": {"readyToUse": True},
        }

    def add_capacity(self, body: dict[str, Any]) -> None:
        """Add a ``CSIStorageCapacity`` object, or change it."""
        with self._lock:
            name = body["metadata"]["name"]
            kind = "MODIFIED" if name in self.capacities else "ADDED"
            self.capacities[name] = {**body, "metadata": {**body["metadata"], **self._version()}}
            self._record_capacity(kind, self.capacities[name])

    def remove_capacity(self, name: str) -> None:
        """Delete a ``CSIStorageCapacity`` object."""
        with self._lock:
            removed = self.capacities.pop(name)
            self._record_capacity("DELETED", {**removed, "metadata": {**removed["metadata"], **self._version()}})

    def _record_capacity(self, kind: str, body: dict[str, Any]) -> None:
        self._capacity_events.append((int(body["metadata"]["resourceVersion"]), {"type": kind, "object": body}))
        self._lock.notify_all()

    def watch_capacities(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the events of ``CSIStorageCapacity`` objects after a resource version, until the watch ends."""
        since, ends, at = int(query["resourceVersion"]), self._ends, 0
        if since < self._forgotten:
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old"}
            yield {"type": "ERROR", "object": {**status, "reason": "Expired", "code": 410}}
            return
        while True:
            with self._lock:
                while self._ends == ends and len(self._capacity_events) == at:
                    self._lock.wait()
                if self._ends != ends:
                    return
                news, at = self._capacity_events[at:], len(self._capacity_events)
            for version, event in news:
                if version > since and _is_selected(event["object"], query.get("labelSelector", "")):
                    yield event

    def _version(self) -> dict[str, str]:
        return {"resourceVersion": str(next(self._versions))}

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        with self._lock:
            if method in self.failing:
                raise _Refused(self.failing[method], "as the test wants it")
            asked = _CAPACITIES.fullmatch(path) or _ALL_CAPACITIES.fullmatch(path)
            if asked is not None and asked["version"] != self.version:
                raise _Refused(404, "NotFound")
            if method == "PATCH":
                return self._patch(path, body) if asked is None else self._patch_capacity(asked["name"], body)
            if method != "GET" and asked is not None:
                return self._write(method, asked["name"] or body["metadata"]["name"], body)
            if asked is not None:
                return self._read_capacities(asked.groupdict().get("name"), query)
            if path == NODES:
                listed = [{"metadata": {"name": name, "labels": each}} for name, each in self.nodes.items()]
                page = _page(listed, query)
                # An empty list of names and labels is null, unlike other lists.
                metadata = {**page["metadata"], "resourceVersion": str(next(self._versions))}
                return {"metadata": metadata, "items": page["items"] or None}
            if path == CLASSES:
                return _page([each for at, each in self._objects.items() if at.startswith(f"{CLASSES}/")], query)
            if path == PODS:
                return {"metadata": self._version(), "items": self._pending_pods(query)}
            if (pod := _POD.fullmatch(path)) is not None and pod["name"] in self._pods:
                return self._pods[pod["name"]]
            if path == PENDING_PODS and path not in self._objects:
                return {"metadata": self._version(), "items": self._pending_pods(query)}
            if path not in self._objects:
                raise _Refused(404, "NotFound")
            return self._objects[path]

    def _pending_pods(self, query: dict[str, str]) -> list[dict[str, Any]]:
        unseen = self.uncached_pods if query.get("resourceVersion") == "0" else ()
        return [pod for name, pod in self._pods.items() if pod["status"]["phase"] == "Pending" and name not in unseen]

    def _patch(self, path: str, body: Any) -> Any:
        """Change the annotations of an object."""
        if path not in self._objects:
            raise _Refused(404, "NotFound")
        self.written.append(("PATCH", path.rpartition("/")[2]))
        metadata = self._objects[path]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), **body["metadata"]["annotations"]}
        return self._objects[path]

    def _patch_capacity(self, name: str, body: Any) -> Any:
        """Change the figure and the annotations of an object, if its resource version is that of the body."""
        there = self.capacities.get(name)
        if there is None:
            raise _Refused(404, "NotFound")
        self.written.append(("PATCH", name))
        if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise _Refused(409, "Conflict")
        annotations = {**there["metadata"].get("annotations", {}), **body["metadata"]["annotations"]}
        metadata = {**there["metadata"], "annotations": annotations, **self._version()}
        self.capacities[name] = {**there, "capacity": body["capacity"], "metadata": metadata}
        self._record_capacity("MODIFIED", self.capacities[name])
        return self.capacities[name]

    def _read_capacities(self, name: str | None, query: dict[str, str]) -> Any:
        if name is not None and name not in self.capacities:
            raise _Refused(404, "NotFound")
        if name is not None:
            return self.capacities[name]
        page = _page(self._labelled(query.get("labelSelector", "")), query)
        return {**page, "metadata": {**page["metadata"], **self._version()}}

    def _labelled(self, selector: str) -> list[dict[str, Any]]:
        return [each for each in self.capacities.values() if _is_selected(each, selector)]

    def _write(self, method: str, name: str, body: Any) -> Any:
        there = self.capacities.get(name)
        if method == "POST":
            if there is not None:
                raise _Refused(409, "AlreadyExists")
            if not _SUBDOMAIN.fullmatch(body["storageClassName"]):
                raise _Refused(422, "Invalid")
        elif there is None:
            raise _Refused(404, "NotFound")
        self.written.append((method, name))
        if method == "DELETE" and there is not None:
            expected = ((body or {}).get("preconditions") or {}).get("resourceVersion")
            if expected not in (None, there["metadata"]["resourceVersion"]):
                raise _Refused(409, "Conflict")
            del self.capacities[name]
            return {"status": "Success"}
        if method == "PUT" and there is not None:
            version = body["metadata"].get("resourceVersion")
            if version not in (None, there["metadata"]["resourceVersion"]):
                raise _Refused(409, "Conflict")
            if any(body.get(key) != there.get(key) for key in ("storageClassName", "nodeTopology")):
                raise _Refused(422, "Invalid")
        if self.version == "v1alpha1":
            body.pop("maximumVolumeSize", None)
        body["metadata"].update(self._version())
        self.capacities[name] = body
        return body

    def _handler(self) -> type[server.BaseHTTPRequestHandler]:
        answer, watch, asked, accepted = self._answer, self.watch, self.asked, self.accepted
        kube_api = self

        class Handler(server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is two small writes, the second of which would wait for the acknowledgement of the first.
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                where = parse.urlsplit(self.path)
                if self.command == "GET":
                    asked.append(where.path)
                    accepted[where.path] = self.headers["Accept"]
                    kube_api.before_read(where.path)
                else:
                    kube_api.before_write()
                if "watch=true" in where.query:
                    query = dict(parse.parse_qsl(where.query))
                    if _ALL_CAPACITIES.fullmatch(where.path):
                        return self._stream(kube_api.watch_capacities(query))
                    return self._stream(watch(where.path, query))
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    status, said = 200, answer(self.command, where.path, dict(parse.parse_qsl(where.query)), body)
                except _Refused as error:
                    status = error.status
                    said = {"kind": "Status", "status": "Failure", "reason": str(error), "code": status}
                raw = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def _stream(self, events: Iterator[dict[str, Any]]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                # The client may disconnect at any time.
                with contextlib.suppress(OSError):
                    for event in events:
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        return Handler


def _is_selected(body: dict[str, Any], selector: str) -> bool:
    """Return whether an object has the label that a selector names, or with ``!=`` does not."""
    key, _, value = selector.partition("=")
    has_value = body["metadata"].get("labels", {}).get(key.removesuffix("!")) == value
    return not has_value if key.endswith("!") else has_value


def _page(found: list[Any], query: dict[str, str]) -> dict[str, Any]:
    start, limit = int(query.get("continue", 0)), int(query.get("limit", len(found) or 1))
    more = str(start + limit) if start + limit < len(found) else ""
    return {"metadata": {"continue": more}, "items": found[start : start + limit]}
