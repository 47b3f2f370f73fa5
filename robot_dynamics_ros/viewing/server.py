# SPDX-License-Identifier: Apache-2.0
"""The web server of the viewer: this machine only, no foreign page, no tunnel to elsewhere."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError

HOST = '127.0.0.1'
_LOOPBACK = (HOST, 'localhost', '::1')
#: A page that does not answer a ping within this time is gone, s.
PING_INTERVAL_S, PING_TIMEOUT_S = 0.5, 1.5


def open_server(port: int, title: str) -> Any:
    """Return a running ``viser.ViserServer`` on the loopback interface.

    It refuses every request with a foreign ``Origin`` or ``Host`` (so that no page from elsewhere
    reaches it, not even by a name that was made to point here), drops pages that no longer answer,
    and opens no tunnel.

    Args:
        port: The first that is tried; 0: any that is free.
        title: Shown above the controls.

    Raises:
        MissingDependencyError: viser is not installed.
        ConfigurationError: The port is none.
    """
    try:
        import viser
        import websockets.asyncio.server as websocket_server
        from viser._messages import ShareUrlRequest
    except ImportError as error:
        remedy = "pip install 'robot_dynamics_ros[view]'"
        raise MissingDependencyError(error.name or 'viser', 'the viewer', remedy) from error
    if not 0 <= port <= 65_535:
        raise ConfigurationError('port', f'is {port}', 'give one from 0 to 65535')
    logging.getLogger('websockets.server').setLevel(logging.ERROR)
    with _guarded(websocket_server), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(HOST, port, title, verbose=False)
    server._websock_server._incoming_handlers.pop(ShareUrlRequest)
    server.gui.configure_theme(
        show_logo=False, show_share_button=False, control_width='large', brand_color=(38, 84, 124)
    )
    return server


def address(server: Any) -> str:
    """Return what to open in a browser."""
    return f'http://{HOST}:{server.get_port()}'


def refusal(headers: Mapping[str, str]) -> str:
    """Return why a request is refused; empty: it is not.

    A browser names the page that asks in ``Origin``: it must be the one that this server has
    given out, under whatever port a tunnel gives it. Programs other than browsers send none.
    """
    host, origin = headers.get('Host', ''), headers.get('Origin')
    if urlsplit(f'//{host}').hostname not in _LOOPBACK:
        return f'host {host!r} is not this machine'
    if origin is not None and urlsplit(origin).netloc != host:
        return f'origin {origin!r} is foreign: open http://{host} itself'
    return ''


@contextlib.contextmanager
def _guarded(websocket_server: Any) -> Iterator[None]:
    """Let a server that is started meanwhile refuse requests, see :func:`open_server`."""
    serve = websocket_server.serve

    def guarded(*args: Any, process_request: Callable[..., Any], **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            reason = refusal(request.headers)
            if reason:
                return connection.respond(HTTPStatus.FORBIDDEN, f'refused: {reason}\n')
            return process_request(connection, request)

        alive = {'ping_interval': PING_INTERVAL_S, 'ping_timeout': PING_TIMEOUT_S}
        return serve(*args, process_request=check, **options, **alive)

    websocket_server.serve = guarded
    try:
        yield
    finally:
        websocket_server.serve = serve
