# SPDX-License-Identifier: Apache-2.0
"""Pods of the manifests as processes: each has its own address, root file system, volumes, token and user.

There is no container runtime. Namespaces of the kernel give a process the paths and ports of its manifest, so commands,
configuration files and certificates are those of a cluster, unchanged.
"""

import base64
import contextlib
import http.client
import itertools
import os
import pathlib
import signal
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.kubernetes import images, manifests
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.servers import ApiServer
from tests.servers import base, network

_CONTAINER = pathlib.Path(__file__).with_name("container.sh")

_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"

#: Pods in a run of the tests: each gets an address of its own.
_PODS = 60

_READY_SECONDS = 120.0

#: The node that all pods are on.
NODE = "n1"

#: Data of ConfigMaps, by the name of the ConfigMap, that are not those of the cluster.
ConfigMaps = Mapping[str, Mapping[str, str]]


class Machine(base.Server):
    """A machine for pods, with a private network. ``names`` are the names of hosts that lead to this machine there."""

    name = "pods"
    packages = "iproute2 util-linux"
    end_signal = signal.SIGKILL

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self._free = itertools.count()

    @classmethod
    def installed(cls) -> bool:
        return network.available()

    def prepare(self) -> None:
        self.network = network.Network(self.popen, _PODS)
        self.address = self.network.own_address
        hosts = ["127.0.0.1 localhost", *(f"{self.address} {name}" for name in self._names)]
        (self.folder / "hosts").write_text("\n".join([*hosts, ""]), encoding="utf-8")
        (self.folder / "nsswitch.conf").write_text("hosts: files\n", encoding="utf-8")

    def start(self) -> None:
        """Start nothing: pods are started one by one."""

    def launch(self) -> "subprocess.Popen[bytes]":
        raise NotImplementedError

    def _ready(self) -> bool:
        return True

    def take_node(self) -> int:
        """Return the number of an address that no pod has had."""
        return next(self._free)

    def run(self, node: int, command: Sequence[str | pathlib.Path], log: str) -> "subprocess.Popen[bytes]":
        """Run a command with the address of a node, in a mount namespace of its own."""
        command = ["unshare", "--mount", "--propagation", "private", *command]
        return self.popen(self.network.command(node, command), env=dict(os.environ), log=log)


class Pod:
    """A pod with one container, at ``address``. It runs from :meth:`start` on."""

    def __init__(self, machine: Machine, name: str, spec: dict[str, Any], mounts: dict[str, pathlib.Path]) -> None:
        """``mounts`` maps paths in the container to files and folders."""
        self.name, self._machine, self._spec = name, machine, spec
        [self._container] = spec["containers"]
        self._image = images.find(self._container["image"])
        self._mounts = mounts
        self._root = machine.folder / f"{name}-root"
        self._root.mkdir()
        self._node = machine.take_node()
        self.address = machine.network.addresses[self._node]
        self.environment = dict(self._image.environment)

    def start(self) -> None:
        """Start the container, also after its end."""
        hosts = {f"/etc/{name}": self._machine.folder / name for name in ("hosts", "nsswitch.conf")}
        files = {**hosts, **self._mounts, **self._image.files}
        pairs = [each for target, source in files.items() for each in (source, target)]
        user = [str(self._security["runAsUser"]), str(self._security.get("runAsGroup", 0))]
        command = [*self._container["command"], *self._container.get("args", ())]
        self._process = self._machine.run(
            self._node,
            [_CONTAINER, *user, self._root, *pairs, "--", *self._in_environment(command)],
            f"{self.name}.log",
        )

    @property
    def _security(self) -> dict[str, Any]:
        context: dict[str, Any] = self._spec["securityContext"]
        return context

    def _in_environment(self, command: Sequence[str]) -> list[str]:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        variables += [f"{each['name']}={self._value(each)}" for each in self._container.get("env", ())]
        return ["/usr/bin/env", "-i", "-C", self._image.folder, *variables, *command]

    def _value(self, variable: dict[str, Any]) -> str:
        """Return the value of a variable, which may be that of a field of the pod."""
        if "valueFrom" not in variable:
            return str(variable["value"])
        fields = {"metadata.name": self.name, "spec.nodeName": NODE}
        return fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]

    @property
    def log(self) -> str:
        """The output of the container."""
        return (self._machine.folder / f"{self.name}.log").read_text(encoding="utf-8")

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def execute(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the container, as ``kubectl exec`` does."""
        group = str(self._security.get("runAsGroup", 0))
        user = ["--setuid", str(self._security["runAsUser"]), "--setgid", group]
        inside = ["nsenter", "--target", str(self._process.pid), "--net", "--mount", "--root", *user, "--"]
        return subprocess.run(
            [*inside, *self._in_environment(command)], capture_output=True, text=True, check=False, timeout=120
        )

    def forward(self, *command: str) -> str:
        """Run a command of this machine on the network of the pod, as with ``kubectl port-forward``.

        Return its output. Raises CalledProcessError if it fails.
        """
        inside = self._machine.network.command(self._node, command)
        return subprocess.run(inside, capture_output=True, text=True, check=True, timeout=120).stdout

    def probe(self, name: str) -> bool:
        """Return whether a probe of the container, such as ``readinessProbe``, succeeds."""
        probe = self._container[name]
        if "exec" in probe:
            return self.execute(*probe["exec"]["command"]).returncode == 0
        asked = probe["httpGet"]
        try:
            return 200 <= self.request("GET", asked["path"], asked["port"], asked["scheme"]) < 400
        except OSError:
            return False

    def request(self, method: str, path: str, port: str | int, scheme: str) -> int:
        """Send a request to a port, a name or a number, as kubelet does, and return the status. Raises OSError.

        Certificates are not verified, and no certificate is sent.
        """
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        number = self.ports[port] if isinstance(port, str) else port
        connection = (
            http.client.HTTPSConnection(self.address, number, timeout=60, context=context)
            if scheme == "HTTPS"
            else http.client.HTTPConnection(self.address, number, timeout=60)
        )
        with contextlib.closing(connection):
            connection.request(method, path)
            return connection.getresponse().status

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the container by their names."""
        return {each["name"]: each["containerPort"] for each in self._container.get("ports", ())}

    def wait_until_ready(self) -> None:
        """Wait until all probes of the container succeed.

        Raises RuntimeError with its log if it ends instead, or if the probes fail for minutes.
        """
        probes = [name for name in ("startupProbe", "livenessProbe", "readinessProbe") if name in self._container]
        try:
            base.wait_for(lambda: not self.running or all(map(self.probe, probes)), "the probes", _READY_SECONDS)
        except TimeoutError as error:
            raise RuntimeError(f"{self.name} was not ready after {_READY_SECONDS:g} s: {self.log}") from error
        if not self.running:
            raise RuntimeError(f"{self.name} has ended: {self.log}")

    def kill(self) -> None:
        """Kill the processes of the container, as a node that fails does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> int:
        """End the container as kubelet does, and return its exit code."""
        hook = self._container.get("lifecycle", {}).get("preStop")
        if hook is not None:
            done = self.execute(*hook["exec"]["command"])
            assert done.returncode == 0, done.stderr
        self._process.terminate()
        return self.wait()

    def terminate(self) -> None:
        """Send SIGTERM, without the pause before."""
        self._process.terminate()

    def wait(self) -> int:
        """Return the exit code of the container, once it has ended within the time of the manifest."""
        return self._process.wait(self._spec.get("terminationGracePeriodSeconds", 30))


class Kubelet:
    """Starts the pods of a cluster on a machine, with the ConfigMaps and Secrets of the cluster."""

    def __init__(self, machine: Machine, server: ApiServer, cluster: Cluster) -> None:
        self._machine, self._server, self._cluster = machine, server, cluster
        self._numbers = itertools.count()

    def run(
        self,
        workload: dict[str, Any],
        config_maps: ConfigMaps | None = None,
        *,
        arguments: Sequence[str] = (),
        account: str | None = None,
    ) -> Pod:
        """Start a pod of a Deployment, of a DaemonSet or of a Job.

        ``config_maps`` replaces data of the cluster, ``arguments`` are added to the command, and ``account`` is another
        service account.
        """
        metadata, spec = workload["metadata"], workload["spec"]["template"]["spec"]
        [container] = spec["containers"]
        spec = {**spec, "containers": [{**container, "args": [*container.get("args", ()), *arguments]}]}
        name, namespace = f"{metadata['name']}-{next(self._numbers)}", metadata["namespace"]
        mounts = self._mounts(name, namespace, spec, config_maps or {})
        if spec["automountServiceAccountToken"]:
            mounts[_ACCOUNT_FOLDER] = self._token(name, account or spec["serviceAccountName"])
        pod = Pod(self._machine, name, spec, mounts)
        address = {"HOST": self._machine.address, "PORT": str(self._server.port)}
        pod.environment |= {f"KUBERNETES_SERVICE_{key}": value for key, value in address.items()}
        pod.start()
        return pod

    def _mounts(
        self, pod: str, namespace: str, spec: dict[str, Any], config_maps: ConfigMaps
    ) -> dict[str, pathlib.Path]:
        group = spec["securityContext"].get("fsGroup", 0)
        volumes = {}
        for volume in spec["volumes"]:
            if "hostPath" in volume:
                volumes[volume["name"]] = pathlib.Path(volume["hostPath"]["path"])
                continue
            folder = volumes[volume["name"]] = self._machine.folder / f"{pod}-{volume['name']}"
            folder.mkdir()
            if "emptyDir" in volume:
                folder.chmod(0o2777)
            else:
                mode = volume.get("secret", {}).get("defaultMode", 0o644)
                self._write(folder, self._contents(namespace, volume, config_maps), mode, group)
        [container] = spec["containers"]
        return {
            each["mountPath"]: volumes[each["name"]] / each.get("subPath", "") for each in container["volumeMounts"]
        }

    def _contents(self, namespace: str, volume: dict[str, Any], config_maps: ConfigMaps) -> dict[str, bytes]:
        """Return the files of a volume."""
        if "projected" in volume:
            sources = [self._contents(namespace, each, config_maps) for each in volume["projected"]["sources"]]
            return {name: text for source in sources for name, text in source.items()}
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            data = config_maps.get(name) or self._cluster.core.read_namespaced_config_map(name, namespace).data
            return {file: text.encode() for file, text in data.items()}
        secret = volume["secret"]
        data = self._cluster.core.read_namespaced_secret(secret.get("name") or secret["secretName"], namespace).data
        return {file: base64.b64decode(text) for file, text in data.items()}

    def _token(self, pod: str, account: str) -> pathlib.Path:
        folder = self._machine.folder / f"{pod}-token"
        folder.mkdir()
        files = {
            "token": self._cluster.token(account).encode(),
            "namespace": manifests.NAMESPACE.encode(),
            "ca.crt": self._server.authority.read_bytes(),
        }
        self._write(folder, files, 0o644, 0)
        return folder

    @staticmethod
    def _write(folder: pathlib.Path, files: Mapping[str, bytes], mode: int, group: int) -> None:
        """Write files that root owns, and that the group may read."""
        for name, content in files.items():
            path = folder / name
            path.write_bytes(content)
            os.chown(path, 0, group)
            path.chmod(mode | 0o440)
        folder.chmod(0o755)
