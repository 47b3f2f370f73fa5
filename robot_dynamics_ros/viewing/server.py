# SPDX-License-Identifier: Apache-2.0
"""The web server of the page: who may connect, and the requests of the page's own script.

The page is that of viser with a script, ``page.js``: it keeps STOP on the screen, sends numbers
when they are entered, and collapses the plots of a small screen. Its requests name an action and
carry a header that pages of other origins cannot set.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.cookies import SimpleCookie
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError
from robot_dynamics_ros.spatial.scalar import Array

HOST = '127.0.0.1'
LOOPBACK = (HOST, 'localhost', '::1')
#: Interval of pings, and time without a response after which a page is disconnected, s.
PING_INTERVAL_S, PING_TIMEOUT_S = 0.5, 1.5
#: An address of version 4 or 6, which is no name.
_ADDRESS = re.compile(r'[\d.]+|[\da-f]*:[\da-f:.]*')
_SCRIPT, _ACTION, _HEADER = '/page.js', '/act', 'X-Viewer'
_TAG = f'<script src="{_SCRIPT}" data-buttons="{{}}" defer></script></head>'
#: Actions with a button that is always on the screen.
_BUTTONS = ('stop', 'hold')


class PageServer:
    """A ``viser.ViserServer`` that rejects what is not its own page.

    It rejects requests with a foreign ``Origin`` or ``Host`` (so that other web pages cannot reach
    it, not even by DNS rebinding), and without its token if it has one, disconnects pages that do
    not respond, and opens no tunnel.

    Attributes:
        viser: The server.
        token: Part of the address that a browser must know; empty: none is needed.
        actions: Functions of the client's number and a text, by name, that the script may call;
            they return a message, and raise ``ValueError`` to refuse.

    Args:
        port: Port; 0 for any free one.
        title: Title above the controls.
        host: Interface to listen on; other machines can connect if it is not the loopback.
        guarded: Whether a browser must know the token, as it must if other machines can connect.

    Raises:
        MissingDependencyError: viser is not installed.
        ConfigurationError: The port is out of range or in use, or the host has no such interface.
    """

    def __init__(self, port: int, title: str, host: str = HOST, *, guarded: bool = False) -> None:
        try:
            import viser
            import websockets.asyncio.server as websocket_server
            from viser._messages import ShareUrlRequest
        except ImportError as error:
            remedy = "pip install 'robot_dynamics_ros[view]'"
            raise MissingDependencyError(error.name or 'viser', 'the viewer', remedy) from error
        if not 0 <= port <= 65_535:
            raise ConfigurationError('port', f'is {port}', 'give one from 0 to 65535')
        self.host, self.actions = host, dict[str, Callable[[int, str], str]]()
        self.token = secrets.token_urlsafe(16) if guarded or host not in LOOPBACK else ''
        _check_free(host, port)
        logger = logging.getLogger('websockets.server')
        logger.setLevel(logging.ERROR)
        logger.addFilter(_is_fault)
        with self._guarding(websocket_server), contextlib.redirect_stdout(io.StringIO()):
            self.viser = viser.ViserServer(host, port, title, verbose=False)
        self.viser._websock_server._incoming_handlers.pop(ShareUrlRequest)
        self.viser.gui.configure_theme(
            show_logo=False,
            show_share_button=False,
            control_width='large',
            brand_color=(38, 84, 124),
        )

    @property
    def address(self) -> str:
        """URL of the page, with its token."""
        token = f'/?token={self.token}' if self.token else ''
        host = f'[{self.host}]' if ':' in self.host else self.host
        return f'http://{host}:{self.viser.get_port()}{token}'

    @staticmethod
    def point(client: Any, eye: Array, centre: Array) -> None:
        """Point the camera of a browser; eye and centre of shape (3,), m.

        The camera of viser is not used: it sends only what differs from the browser's last
        report, and an older one that arrives between eye and centre left the view at neither.
        """
        from viser._messages import SetCameraLookAtMessage, SetCameraPositionMessage

        for kind, place in ((SetCameraPositionMessage, eye), (SetCameraLookAtMessage, centre)):
            client._websock_connection.queue_message(kind(tuple(place.tolist())))

    @contextlib.contextmanager
    def _guarding(self, websocket_server: Any) -> Iterator[None]:
        """Add request checks to servers started in this context."""
        serve = websocket_server.serve

        def guarded(*args: Any, process_request: Callable[..., Any], **options: Any) -> Any:
            def answer(connection: Any, request: Any) -> Any:
                return self._answer(connection, request, process_request)

            alive = {'ping_interval': PING_INTERVAL_S, 'ping_timeout': PING_TIMEOUT_S}
            return serve(*args, process_request=answer, **options, **alive)

        websocket_server.serve = guarded
        try:
            yield
        finally:
            websocket_server.serve = serve

    def _answer(self, connection: Any, request: Any, process_request: Callable[..., Any]) -> Any:
        """Answer a request: refuse it, perform an action, or serve the page."""
        path, _, query = request.path.partition('?')
        given = {name: values[-1] for name, values in parse_qs(query).items()}
        reason = refusal(request.headers, self.host) or self._missing_token(request, given)
        if reason:
            return connection.respond(HTTPStatus.FORBIDDEN, f'refused: {reason}\n')
        if path == _ACTION:
            return connection.respond(*self._act(request.headers, given))
        if path == _SCRIPT:
            text = files('robot_dynamics_ros.viewing').joinpath('page.js').read_text('utf-8')
            response = connection.respond(HTTPStatus.OK, text)
            response.headers['Content-Type'] = 'text/javascript'
            return response
        response = process_request(connection, request)
        if response is not None and path == '/':
            self._add_script(response)
            if self.token:
                cookie = f'{self._cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/'
                response.headers['Set-Cookie'] = cookie
        return response

    @property
    def _cookie(self) -> str:
        return f'viewer_{self.viser.get_port()}'  # cookies do not distinguish ports

    def _missing_token(self, request: Any, given: Mapping[str, str]) -> str:
        if not self.token:
            return ''
        kept = SimpleCookie(request.headers.get('Cookie', '')).get(self._cookie)
        known = given.get('token', kept.value if kept else '')
        if secrets.compare_digest(known.encode(), self.token.encode()):
            return ''
        return 'open the address that the viewer printed, with its token'

    def _act(self, headers: Mapping[str, str], given: Mapping[str, str]) -> tuple[HTTPStatus, str]:
        """Perform an action of the script; return status and message."""
        action = self.actions.get(given.get('name', ''))
        if headers.get(_HEADER) is None or action is None:
            return HTTPStatus.FORBIDDEN, 'refused: not a request of this page'
        client = given.get('client', '')
        try:
            return HTTPStatus.OK, action(int(client or -1), given.get('value', ''))
        except ValueError as error:
            return HTTPStatus.BAD_REQUEST, str(error)

    def _add_script(self, response: Any) -> None:
        """Add the script to viser's page."""
        packed = response.headers.get('Content-Encoding') == 'gzip'
        page = gzip.decompress(response.body) if packed else response.body
        buttons = ' '.join(name for name in _BUTTONS if name in self.actions)
        response.body = page.replace(b'</head>', _TAG.format(buttons).encode(), 1)
        for name, value in {'Encoding': 'identity', 'Length': str(len(response.body))}.items():
            del response.headers[f'Content-{name}']
            response.headers[f'Content-{name}'] = value


def _is_fault(record: logging.LogRecord) -> bool:
    """Return whether a record tells more than that a browser left without a request.

    Chromium opens connections in advance. viser drops these records, but only after a request.
    """
    return record.getMessage() != 'opening handshake failed'


def _check_free(host: str, port: int) -> None:
    """Raise ConfigurationError if a server cannot listen on a port.

    viser would silently take another one.
    """
    import socket

    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            remedy = 'end what listens there, or choose another one; 0: any free one'
            problem = f'cannot be used on {host}: {error.strerror or error}'
            raise ConfigurationError(f'port {port}', problem, remedy) from error


def refusal(headers: Mapping[str, str], host: str = HOST) -> str:
    """Return why a request is rejected; empty if it is accepted.

    Browsers send the requesting page in ``Origin``, which must match ``Host`` (whose port may
    differ behind a tunnel). Other programs send no ``Origin``. A server of other machines is
    reached by its address, which no name can be made to stand for, or by the name it was given.
    """
    named, origin = headers.get('Host', ''), headers.get('Origin')
    name = urlsplit(f'//{named}').hostname or ''
    if name not in (*LOOPBACK, host) and (host in LOOPBACK or not _ADDRESS.fullmatch(name)):
        return f'host {named!r} is not this machine'
    if origin is not None and urlsplit(origin).netloc != named:
        return f'origin {origin!r} is foreign: open http://{named} itself'
    return ''
