# SPDX-License-Identifier: Apache-2.0
"""etcd, kube-apiserver and kube-scheduler, as built by ``tools/install-kubernetes.sh``.

Their version is Kubernetes 1.20. Users have tokens, and roles define their rights.
"""

import json
import pathlib
import secrets
import signal
import subprocess

import requests

from tests.kubernetes import manifests
from tests.servers import base

_BIN = pathlib.Path(__file__).parents[2] / ".kubernetes" / "bin"

#: The user with all rights.
ADMIN = "admin"
SCHEDULER = "system:kube-scheduler"
#: The users of the extender and the publisher.
EXTENDER, PUBLISHER = "extender", "publisher"

#: Kubernetes 1.20 has CSIStorageCapacity objects only with this feature gate.
_GATES = "--feature-gates=CSIStorageCapacity=true"


class _KubernetesProcess(base.Server):
    """A process of Kubernetes. Its data are discarded when it ends."""

    packages = "that tools/install-kubernetes.sh builds, with make test-kubernetes"
    end_signal = signal.SIGKILL
    patience = 300.0
    program: str

    @classmethod
    def installed(cls) -> bool:
        return (_BIN / cls.program).exists()

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return self._popen([_BIN / self.program, *arguments], env={"HOME": str(self.folder)})


class Etcd(_KubernetesProcess):
    """etcd for kube-apiserver, at :attr:`url`."""

    name = program = "etcd"

    def _prepare(self) -> None:
        self.url = f"http://127.0.0.1:{base.free_port()}"
        self._peers = f"http://127.0.0.1:{base.free_port()}"

    def _launch(self) -> "subprocess.Popen[bytes]":
        return self._start(
            f"--data-dir={self.folder}/data",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={self._peers}",
            f"--initial-advertise-peer-urls={self._peers}",
            f"--initial-cluster=default={self._peers}",
        )

    def _ready(self) -> bool:
        try:
            return bool(requests.get(f"{self.url}/health", timeout=10).json()["health"] == "true")
        except requests.RequestException:
            return False


class ApiServer(_KubernetesProcess):
    """kube-apiserver at :attr:`url`, with an etcd.

    There are no controllers, so admission plug-ins that depend on them are disabled.
    """

    name = program = "kube-apiserver"

    def __init__(self, etcd: Etcd) -> None:
        super().__init__()
        self._etcd = etcd
        self._tokens = {user: secrets.token_hex() for user in (ADMIN, SCHEDULER, EXTENDER, PUBLISHER)}

    def _prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self._certificates()
        lines = [
            f"{token},{user},{user}" + (",system:masters" if user == ADMIN else "")
            for user, token in self._tokens.items()
        ]
        self._private("tokens.csv", "\n".join(lines))

    def _launch(self) -> "subprocess.Popen[bytes]":
        return self._start(
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self.folder}/server.pem",
            f"--tls-private-key-file={self.folder}/server.key",
            f"--etcd-servers={self._etcd.url}",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            # No controller creates service accounts, or removes taints and finalizers.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/server.key",
            f"--service-account-signing-key-file={self.folder}/server.key",
            "--service-cluster-ip-range=192.0.2.0/24",
            # kube-apiserver requires an address outside the loopback interface. It is not used.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            _GATES,
            "--runtime-config=storage.k8s.io/v1alpha1=true",
        )

    def _ready(self) -> bool:
        headers = {"Authorization": f"Bearer {self._tokens[ADMIN]}"}
        try:
            answer = requests.get(f"{self.url}/readyz", headers=headers, verify=self._authority, timeout=10)
        except requests.RequestException:
            return False
        return answer.ok

    def kubeconfig(self, user: str) -> str:
        """Write a kubeconfig file for a user, and return its path."""
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "here", "cluster": {"server": self.url, "certificate-authority": self._authority}},
            ],
            "users": [{"name": "me", "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        return str(self._private(f"kubeconfig-{user.rpartition(':')[2]}", json.dumps(settings)))

    @property
    def _authority(self) -> str:
        return str(self.folder / "authority.pem")

    def _certificates(self) -> None:
        made = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048"]
        made += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
        authority = ["-CA", f"{self.folder}/authority.pem", "-CAkey", f"{self.folder}/authority.key"]
        for name, more in (("authority", []), ("server", authority)):
            files = ["-keyout", f"{self.folder}/{name}.key", "-out", f"{self.folder}/{name}.pem"]
            self._run([*made, "-subj", f"/CN={name}", *files, *more])

    def _private(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return path


class KubeScheduler(_KubernetesProcess):
    """kube-scheduler with the configuration of ``deploy/kubernetes``, for pods that name no scheduler.

    ``extenders`` are the URLs of its extenders, which have no TLS here. With ``names_only`` it sends the names of nodes
    to the extenders, otherwise whole nodes.
    """

    name = program = "kube-scheduler"

    def __init__(self, kubeconfig: str, *extenders: str, names_only: bool = True) -> None:
        super().__init__()
        self._kubeconfig, self._extenders, self._names_only = kubeconfig, extenders, names_only

    def _prepare(self) -> None:
        address = f"127.0.0.1:{base.free_port()}"
        self.url = f"http://{address}"
        configuration = manifests.scheduler_configuration()
        [extender] = configuration["extenders"]
        del extender["tlsConfig"]
        own = {"enableHTTPS": False, "nodeCacheCapable": self._names_only}
        configuration |= {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "clientConnection": {"kubeconfig": self._kubeconfig},
            "leaderElection": {"leaderElect": False},
            "healthzBindAddress": address,
            "metricsBindAddress": address,
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": [{**extender, "urlPrefix": f"{url}/k8s", **own} for url in self._extenders],
        }
        (self.folder / "configuration").write_text(json.dumps(configuration), encoding="utf-8")

    def _launch(self) -> "subprocess.Popen[bytes]":
        return self._start(f"--config={self.folder}/configuration", "--secure-port=0", _GATES)

    def _ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/healthz", timeout=10).ok
        except requests.RequestException:
            return False
