# SPDX-License-Identifier: Apache-2.0
"""All uses of undocumented rclpy features, and the executors built on them.

Tested with rclpy of Jazzy to Lyrical.

Passive nodes poll messages in batches: waking up for every message costs far more processor time
than taking the message, for its sender too, and a controller on the same machine may need that
time.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import inspect
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from operator import itemgetter
from pathlib import Path
from threading import Event
from typing import Any
from weakref import WeakSet

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import (
    ConditionReachedException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.subscription import Subscription
from rclpy.utilities import get_rmw_implementation_identifier

_KINDS = ('publisher', 'subscription', 'service', 'timer')
#: Polling period, s, of nodes without ``poll_period_s``; 100 messages of a topic at 2 kHz.
_POLL_S = 0.05
#: Shortest period at which a polling process serves everything else, s.
_SERVE_REST_S = 0.045
#: The middleware delivers in bursts: for how long it holds messages back and delivers them, s.
#: At 6000 round trips a second, three topics of them fill a third of its queue.
_HELD_S, _DELIVERY_S = 0.009, 0.001
#: Age at which the creator of an unfinished shared-memory port cannot be alive, s.
_CREATION_S = 2.0
#: How long a goal that has just been accepted may take to be asked for its result, s.
_ASKING_S = 0.3
CLEANED_UP = 'the controller was cleaned up'


def remove_unfinished_ports() -> list[str]:
    """Remove the shared-memory ports of Fast DDS whose creators were killed while creating them.

    A participant of the same domain would open the port with the same number, and wait for its
    creator for ever, without a message. Creating a port takes less than a millisecond; those that
    are not finished after 2 s are removed.

    Returns:
        The paths of these ports; those of another user still exist.
    """
    unfinished = []
    for port in Path('/dev/shm').glob('fast*_port*[0-9]'):
        with contextlib.suppress(OSError):  # it no longer exists, or belongs to another user
            while not _is_initialized(port):
                if abs(time.time() - port.stat().st_mtime) > _CREATION_S:
                    unfinished.append(str(port))
                    port.unlink()
                else:
                    time.sleep(0.01)
    return unfinished


def _is_initialized(port: Path) -> bool:
    """Return whether a port can be opened: its first four bytes are a state, 0 and 1 before."""
    with port.open('rb') as file:
        return int.from_bytes(file.read(4), sys.byteorder) > 1


def taker(subscription: Any) -> Callable[[], tuple[Any, Any] | None]:
    """Return a function that does as :func:`take_message`, for callbacks of the subscription."""
    return partial(subscription.handle.take_message, subscription.msg_type, subscription.raw)


def take_message(subscription: Any) -> tuple[Any, Any] | None:
    """Take a pending message and its info without an executor; None if there is none."""
    with subscription.handle:
        return taker(subscription)()


def with_info(take: Callable[[Any], None]) -> Callable[..., None]:
    """Return the callback of a subscription for a function of the info of a message.

    An executor of rclpy gives message and info, the EventsExecutor both as one tuple.
    """

    def on_message(*taken: Any) -> None:
        take(taken[-1][1] if len(taken) == 1 else taken[1])

    parameter = inspect.Parameter
    both = [parameter(name, parameter.POSITIONAL_ONLY) for name in ('message', 'info')]
    on_message.__signature__ = inspect.Signature(both)  # type: ignore[attr-defined]
    return on_message


class DeliveryGate:
    """Holds back the messages of attached subscriptions before they wake this process.

    A message wakes a thread of Fast DDS in every receiving process, and waking it costs the
    sender 10 to 20 us. While the gate is closed, that thread waits in the callback that announces
    the first message; the following ones queue in shared memory (512 per process) without waking
    it. Everything that this process receives waits with it. Subscriptions must not be used while
    the gate is closed, and publishers in the same process must not be used at all: they would
    wait too.

    The callback runs under a lock that :func:`take_message` needs as well, while it holds the
    GIL, so it must not be Python. It is ``flock`` of the C library, which fits the signature
    ``void (const void * user_data, size_t number_of_events)`` of rcl: the data are a file
    descriptor, and one event means a shared lock, which waits for the exclusive lock of a closed
    gate. Two events mean an exclusive lock, which waits too; other numbers do not wait.

    Raises:
        OSError, AttributeError: rcl or the operating system lacks a function that is needed.
    """

    def __init__(self) -> None:
        self._set_callback = ctypes.CDLL('librcl.so').rcl_subscription_set_on_new_message_callback
        self._set_callback.argtypes = [ctypes.c_void_p] * 3
        self._wait = ctypes.cast(ctypes.CDLL(None).flock, ctypes.c_void_p)
        # Two descriptions of one file, never closed: callbacks can use them until the process ends
        self._callbacks = os.memfd_create('delivery_gate')
        self._own = os.open(f'/proc/self/fd/{self._callbacks}', os.O_RDWR)
        self._attached = WeakSet[Any]()

    def attach(self, subscriptions: Iterable[Any]) -> None:
        """Let messages of these subscriptions wait for the gate; those attached stay so."""
        for subscription in subscriptions:
            if subscription not in self._attached:
                with subscription.handle:
                    pointer = subscription.handle.pointer
                    self._set_callback(pointer, self._wait, self._callbacks)
                self._attached.add(subscription)

    def has_delivered(self) -> bool:
        """Return whether a message was delivered since the gate was closed last."""
        if not self._lock():
            return True
        fcntl.flock(self._own, fcntl.LOCK_UN)
        return False

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Hold messages back during a ``with`` block."""
        try:
            while not self._lock():
                fcntl.flock(self._callbacks, fcntl.LOCK_UN)
            yield
        finally:
            fcntl.flock(self._own, fcntl.LOCK_UN)

    def _lock(self) -> bool:
        """Take the exclusive lock unless callbacks have the shared one; return whether taken."""
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def delivery_gate() -> DeliveryGate | None:
    """Return a new gate; None where the middleware or the system does not support one."""
    if 'fastrtps' not in get_rmw_implementation_identifier():
        return None
    try:
        return DeliveryGate()
    except (OSError, AttributeError):
        return None


def lifecycle_state(node: Any) -> str:
    """Return the state name of a lifecycle node, such as 'active'."""
    return str(node._state_machine.current_state[1])


def parameter_overrides(node: Any) -> dict[str, Any]:
    """Return the parameter overrides of a node, declared or not; changes act on declarations."""
    overrides: dict[str, Any] = getattr(node, '_parameter_overrides', {})
    return overrides


def refuse_impossible_transitions(node: Any) -> None:
    """Make the service ``~/change_state`` refuse impossible transitions.

    The error that rclpy raises for them would end the process: a manager that requests
    ``configure`` of an active controller would stop the arm.

    Args:
        node: A lifecycle node.
    """
    for service in node.services:
        if service.srv_type is ChangeState:
            service.callback = partial(_change_state, node, service.callback)


def _change_state(
    node: Any, change: Any, request: ChangeState.Request, response: ChangeState.Response
) -> ChangeState.Response:
    """Change the state of a lifecycle node by a callback, or refuse."""
    requested = request.transition.label or request.transition.id
    transitions = node._state_machine.available_transitions
    possible = {label: number for number, label, *_ in transitions}
    if requested in possible or requested in possible.values():
        return change(request, response)
    node.get_logger().warning(
        f'transition {requested} refused: the node is {lifecycle_state(node)}; '
        f'possible: {", ".join(sorted(possible))}'
    )
    response.success = False
    return response


#: Sends the response of a service.
Respond = Callable[[Any], None]


def respond_later(service: Any, act: Callable[[Any, Any, Respond], None]) -> None:
    """Let a service respond when it is told to, instead of when its callback returns.

    The executors keep the header of the request for themselves: they pass it, with what the
    callback returns, to ``send_response``. The EventsExecutor knows no coroutines as callbacks,
    others let nothing else of their group run meanwhile.

    Args:
        service: The service.
        act: Called with the request, a new response, and the function that sends it.
    """
    send_now = service.send_response

    def callback(request: Any, response: Any) -> Future[Any]:
        later = Future[Any]()
        act(request, response, later.set_result)
        return later

    def send_response(later: Future[Any], header: Any) -> None:
        later.add_done_callback(lambda content: send_now(content.result(), header))

    service.callback, service.send_response = callback, send_response


def parameter_services(node: Any) -> list[Any]:
    """Return the services of a node that set its parameters."""
    kinds = (SetParameters, SetParametersAtomically)
    return [service for service in node.services if service.srv_type in kinds]


def end_goals(server: Any, end: Callable[[Any], Any]) -> None:
    """End the accepted goals of an action server that is about to be destroyed.

    Their coroutines would send the results, if an executor still ran them. A client asks for the
    result once it knows that its goal is accepted; one that has not asked yet is waited for.

    Args:
        server: The server.
        end: Brings a handle to a final state, and returns the result.
    """
    unasked, respond = set(), server._action_type.Impl.GetResultService
    for uuid, handle in server._goal_handles.items():
        if handle.is_active:
            result = end(handle)
            future = server._result_futures[uuid]
            if not future._callbacks:
                unasked.add(uuid)
            future._set_executor(None)  # call those who wait for it now
            future.set_result(respond.Response(status=handle.status, result=result))
    until = time.monotonic() + _ASKING_S
    while unasked and time.monotonic() < until:
        header, request = server._handle.take_result_request(respond.Request)
        if request is None:
            time.sleep(1e-3)
        elif (uuid := bytes(request.goal_id.uuid)) in server._result_futures:
            server._send_result_response(header, server._result_futures[uuid])
            unasked.discard(uuid)


#: Kind and object of a publisher, subscription, service or timer.
Entity = tuple[str, Any]


def entities(node: Any, but: Sequence[Entity] = ()) -> list[Entity]:
    """Return the publishers, subscriptions, services and timers of a node, but for some."""
    every = [(kind, one) for kind in _KINDS for one in getattr(node, f'{kind}s')]
    return [one for one in every if one not in but]


def destroy(node: Any, those: Sequence[Entity]) -> None:
    """Destroy publishers, subscriptions, services and timers of a node that still exist.

    Requests that had arrived are answered: they fail. The EventsExecutor handles what else had
    arrived later: it is dropped.
    """
    for kind, one in those:
        one.callback = one.send_response = lambda *_: None
        if kind == 'service':
            types = one.srv_type
            while header := one.handle.service_take_request(types.Request)[1]:
                type(one).send_response(one, types.Response(message=CLEANED_UP), header)
        getattr(node, f'destroy_{kind}')(one)


# Executors ---------------------------------------------------------------------------------------


class PolledGroup(ReentrantCallbackGroup):
    """A callback group whose subscriptions no executor serves; other entities are served.

    Attributes:
        in_bursts: Whether the middleware may deliver in bursts, where it can. This relieves the
            senders, but a sender of large messages overwrites what waits for delivery.
    """

    def __init__(self, *, in_bursts: bool = False) -> None:
        super().__init__()
        self.in_bursts = in_bursts

    def stop_bursts(self, _lost: Any = None) -> None:
        """Deliver every message at once from now on; also an event callback for lost messages."""
        self.in_bursts = False

    def can_execute(self, entity: Any) -> bool:
        """Return whether the entity is not a subscription."""
        return not isinstance(entity, Subscription)


class PollingExecutor(SingleThreadedExecutor):
    """Sleeps for ``poll_period_s`` of a node, calls its ``poll``, serves what else is ready.

    It never waits on entities: the middleware would wake it at every message of a topic. While it
    sleeps, messages are delivered in bursts to groups that allow it. It must be the only executor
    of its process, and no other thread may publish.

    Attributes:
        woken: Ends the sleep when set, from any thread.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._gate, self.woken, self._served_at = delivery_gate(), Event(), -_SERVE_REST_S

    def spin_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Spin until the future is done; since Kilted, rclpy calls a private method for it."""
        until = math.inf if timeout_sec is None else time.monotonic() + timeout_sec
        while self.context.ok() and not future.done() and time.monotonic() < until:
            self.spin_once_until_future_complete(future)

    def spin_once_until_future_complete(self, future: Any, timeout_sec: Any = None) -> None:
        """Sleep, poll the messages, serve what is ready."""
        self._sleep()
        awoken, now = self.woken.is_set(), time.monotonic()
        self.woken.clear()
        for node in self.get_nodes():
            if hasattr(node, 'poll'):
                node.poll()
        if awoken or now - self._served_at >= _SERVE_REST_S:
            with contextlib.suppress(
                TimeoutException, ShutdownException, ConditionReachedException
            ):
                while True:  # without one more callback of the future for each, as in rclpy
                    handler, _, _ = self.wait_for_ready_callbacks(0, None, future.done)
                    handler()
                    handler.result()  # raises what it raised
            self._served_at = now

    def _sleep(self) -> None:
        nodes = self.get_nodes()
        period = min(getattr(node, 'poll_period_s', _POLL_S) for node in nodes)
        every = [one for node in nodes for one in node.subscriptions]
        bursts = [one for one in every if getattr(one.callback_group, 'in_bursts', False)]
        if self._gate is None or not bursts:
            self.woken.wait(period)
            return
        self._gate.attach(bursts)
        end = time.monotonic() + period
        while time.monotonic() < end and not self.woken.is_set():
            if self._gate.has_delivered():  # else the middleware may have had no processor
                with self._gate.closed():
                    time.sleep(_HELD_S)
            time.sleep(_DELIVERY_S)


def take_pending(subscriptions: Iterable[Subscription]) -> list[tuple[int, Subscription, Any]]:
    """Take all messages that have arrived; return them with their source times, ns, sorted by it.

    The subscriptions are polled until none has a message, so that no message is returned in a
    later batch although it had arrived when one of this batch was sent.
    """
    messages: list[tuple[int, Subscription, Any]] = []
    count = -1
    while len(messages) > count:
        count = len(messages)
        for subscription in subscriptions:
            while (taken := take_message(subscription)) is not None:
                messages.append((taken[1]['source_timestamp'], subscription, taken[0]))
    messages.sort(key=itemgetter(0))
    return messages
