# SPDX-License-Identifier: Apache-2.0
"""A proxy between a client of the Container Storage Interface and a plug-in, which loses calls and answers."""

import tempfile
from collections.abc import Callable
from concurrent import futures
from types import TracebackType
from typing import Literal, Self, TypeAlias

import grpc

Moment: TypeAlias = Literal["before", "after"]

#: Called with the name of a method, before the plug-in is called and after it has answered. It may block. With a code
#: the caller gets this error: before, nothing is done; after, the answer is lost.
Rule: TypeAlias = Callable[[str, Moment], grpc.StatusCode | None]


class CsiProxy:
    """The proxy at ``endpoint``. Use it as a context manager. ``rule`` may be replaced at any time."""

    def __init__(self, target: str) -> None:
        self._target = target
        # The path of a socket must be short.
        self._socket = tempfile.TemporaryDirectory(prefix="csi-", dir="/tmp")
        self.endpoint = f"unix://{self._socket.name}/csi.sock"
        self.rule: Rule = lambda method, moment: None

    def __enter__(self) -> Self:
        # Servers of gRPC in Python want a name of a host.
        options = [("grpc.default_authority", "localhost"), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = grpc.insecure_channel(self._target, options)
        self._server = grpc.server(futures.ThreadPoolExecutor(32, thread_name_prefix="csi-proxy"), [_Handler(self)])
        self._server.add_insecure_port(self.endpoint)
        self._server.start()
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop(grace=0).wait()
        self._channel.close()
        self._socket.cleanup()

    def forward(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Pass a call on by the rule."""
        name = method.rpartition("/")[2]
        if (code := self.rule(name, "before")) is not None:
            context.abort(code, "by the proxy: not done")
        if not context.is_active():
            # The caller has gone: a call that arrives after its repetition would be a call of nobody.
            context.abort(grpc.StatusCode.CANCELLED, "the caller has gone")
        try:
            answer: bytes = self._channel.unary_unary(method, None, None)(request, timeout=60)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
        if (code := self.rule(name, "after")) is not None:
            context.abort(code, "by the proxy: the answer is lost")
        return answer


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, proxy: CsiProxy) -> None:
        self._proxy = proxy

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._proxy.forward(method, request, context)
        )
