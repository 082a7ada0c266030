# SPDX-License-Identifier: Apache-2.0
"""The server of the plug-in."""

import pathlib
import tempfile
from collections.abc import Callable
from concurrent import futures
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor

from tests.servers.csi_plugin.services import Services
from tests.servers.csi_plugin.volumes import Refused, Settings, Storage
from tonnage.drivers.csi import csi_pb2


class CsiPlugin:
    """The plug-in at ``endpoint``, with volumes in ``folder``. Use it as a context manager.

    ``calls`` has the method name and the request of each call in order.
    """

    def __init__(self, folder: pathlib.Path, settings: Settings) -> None:
        self.settings = settings
        self.folder = folder
        self.storage = Storage(folder)
        # The folders of tests have long names, but the path of a socket must be short.
        self._socket = tempfile.TemporaryDirectory(prefix="csi-", dir="/tmp")
        self.endpoint = f"unix://{self._socket.name}/csi.sock"
        self.calls: list[tuple[str, Any]] = []
        self._services = Services(settings, self.storage)
        self._server: grpc.Server | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._socket.cleanup()

    def start(self) -> None:
        """Start the server."""
        self._server = grpc.server(futures.ThreadPoolExecutor(16, thread_name_prefix="csi"))
        for service in csi_pb2.DESCRIPTOR.services_by_name.values():
            handlers = {method.name: self._handler(method) for method in service.methods}
            self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service.full_name, handlers)])
        self._server.add_insecure_port(self.endpoint)
        self._server.start()

    def stop(self) -> None:
        """Stop the server without waiting for calls."""
        for gate in self.settings.gates.values():
            gate.set()
        if self._server is not None:
            self._server.stop(grace=0).wait()
            self._server = None

    def asked(self, name: str) -> list[Any]:
        """Return all requests to a method so far."""
        return [request for method, request in self.calls if method == name]

    def _handler(self, method: MethodDescriptor) -> grpc.RpcMethodHandler:
        name = method.name
        answer: Callable[[Any], Any] = getattr(self._services, name)

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            self.calls.append((name, request))
            try:
                if name in self.settings.failing:
                    raise Refused(self.settings.failing[name], "as the test wants it")
                if name in self.settings.unreliable and len(self.asked(name)) % 3:
                    raise Refused(self.settings.unreliable[name], "as the test wants it at two of three calls")
                if name in self.settings.losing:
                    self.settings.losing.discard(name)
                    self.settings.lose(lambda: answer(request))
                    raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED, "the answer is lost")
                response = answer(request)
                if name in self.settings.lost_answers:
                    raise Refused(self.settings.lost_answers[name], "the answer is lost")
                return response
            except Refused as error:
                context.abort(error.code, str(error))

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=message_factory.GetMessageClass(method.output_type).SerializeToString,
        )
