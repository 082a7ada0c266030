# SPDX-License-Identifier: Apache-2.0
"""etcd and kube-apiserver, as built by ``tools/install-kubernetes.sh``.

Their version is Kubernetes 1.20. Roles define the rights of service accounts.
"""

import json
import pathlib
import secrets
import signal
import subprocess

import requests

from tests.kubernetes import images
from tests.servers import base

#: Kubernetes 1.20 has CSIStorageCapacity objects only with this feature gate.
GATES = "--feature-gates=CSIStorageCapacity=true"


class _KubernetesProcess(base.Server):
    """A process of Kubernetes. Its data are discarded when it ends."""

    packages = "that tools/install-kubernetes.sh builds, with make test-kubernetes"
    end_signal = signal.SIGKILL
    patience = 300.0
    program: str

    @classmethod
    def installed(cls) -> bool:
        return (images.KUBERNETES / cls.program).exists()

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return self.popen([images.KUBERNETES / self.program, *arguments], env={"HOME": str(self.folder)})


class Etcd(_KubernetesProcess):
    """etcd for kube-apiserver, at :attr:`url`."""

    name = program = "etcd"

    def prepare(self) -> None:
        self.url = f"http://127.0.0.1:{base.free_port()}"
        self._peers = f"http://127.0.0.1:{base.free_port()}"

    def launch(self) -> "subprocess.Popen[bytes]":
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
    """kube-apiserver at :attr:`url`, on ``address``, with an etcd.

    There are no controllers, so admission plug-ins that depend on them are disabled.
    """

    name = program = "kube-apiserver"

    def __init__(self, etcd: Etcd, address: str) -> None:
        super().__init__()
        self._etcd, self._address = etcd, address
        self._token = secrets.token_hex()

    def prepare(self) -> None:
        self.port = base.free_port()
        self.url = f"https://{self._address}:{self.port}"
        self.authority = self.folder / "authority.pem"
        self._certificates()
        self._private("tokens.csv", f"{self._token},admin,admin,system:masters")

    def launch(self) -> "subprocess.Popen[bytes]":
        return self._start(
            f"--bind-address={self._address}",
            f"--secure-port={self.port}",
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
            "--endpoint-reconciler-type=none",
            GATES,
            "--runtime-config=storage.k8s.io/v1alpha1=true",
        )

    def _ready(self) -> bool:
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            answer = requests.get(f"{self.url}/readyz", headers=headers, verify=str(self.authority), timeout=10)
        except requests.RequestException:
            return False
        return answer.ok

    def kubeconfig(self, token: str | None = None) -> str:
        """Write a kubeconfig file for a token, by default that of a user with all rights, and return its path."""
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "here", "cluster": {"server": self.url, "certificate-authority": str(self.authority)}},
            ],
            "users": [{"name": "me", "user": {"token": token or self._token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        return str(self._private(f"kubeconfig-{secrets.token_hex(4)}", json.dumps(settings)))

    def _certificates(self) -> None:
        made = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048"]
        made += [
            "-addext",
            f"subjectAltName=IP:{self._address}",
            "-addext",
            "keyUsage=critical,digitalSignature,keyCertSign",
        ]
        authority = ["-CA", f"{self.authority}", "-CAkey", f"{self.folder}/authority.key"]
        for name, more in (("authority", []), ("server", authority)):
            files = ["-keyout", f"{self.folder}/{name}.key", "-out", f"{self.folder}/{name}.pem"]
            self._run([*made, "-subj", f"/CN={name}", *files, *more])

    def _private(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        return path
