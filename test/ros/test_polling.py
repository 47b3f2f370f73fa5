# SPDX-License-Identifier: Apache-2.0
"""Polling nodes: messages queued between two polls are taken completely and in order."""

import ast
import time
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.utilities import get_rmw_implementation_identifier
from std_msgs.msg import Float64
from std_srvs.srv import Trigger

from robot_dynamics_ros.ros import rclpy_compat
from robot_dynamics_ros.ros.rclpy_compat import PolledGroup, PollingExecutor, destroy, take_pending

fast_dds = pytest.mark.skipif(
    'fastrtps' not in get_rmw_implementation_identifier(), reason='the middleware is not Fast DDS'
)
_COUNT = 300  # Fast DDS queues 512 messages for a process
_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)

#: A process with one polled subscription. It prints how often its other threads woke up while the
#: test published, and what it received: with the gate closed, with it open, under the executor;
#: and how often that closed the gate.
_LISTENER = """
import os, time
from pathlib import Path
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Float64
from robot_dynamics_ros.ros.rclpy_compat import (
    PolledGroup, PollingExecutor, delivery_gate, take_pending)

def wakes():
    texts = [(task / 'status').read_text() for task in Path('/proc/self/task').iterdir()
             if int(task.name) != os.getpid()]
    return sum(int(text.split('\\nvoluntary_ctxt_switches:')[1].split()[0]) for text in texts)

class Listener(Node):
    def __init__(self):
        super().__init__('listener')
        self.received = []
        self.one = self.create_subscription(
            Float64, 'numbers', lambda _: None,
            QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT),
            callback_group=PolledGroup(in_bursts=True))

    def poll(self):
        self.received += [message.data for _, _, message in take_pending([self.one])]

    def drop(self):
        self.poll()
        count, self.received = len(self.received), []
        return count

rclpy.init()
node, gate, never = Listener(), delivery_gate(), rclpy.task.Future()
gate.attach([node.one])
while not node.drop():  # the publisher sends until it is known to be connected
    time.sleep(0.01)
print('connected', flush=True)
time.sleep(0.5)
node.drop()

def report(phase, step, done=lambda: False):
    before = wakes()
    print('ready', phase, flush=True)
    while not Path({folder!r}, phase).exists():
        step()
    count, end = wakes() - before, time.monotonic() + 60.0
    yield
    while len(node.received) < {count} and time.monotonic() < end:
        time.sleep(0.01)
        node.poll()
    print('result', phase, [count, node.received], flush=True)
    node.received = []

phase = report('closed', lambda: time.sleep(0.01))
with gate.closed():
    next(phase)
list(phase)
list(report('open', lambda: time.sleep(0.01)))
executor, closings = PollingExecutor(), []
closed = executor._gate.closed
executor._gate.closed = lambda: closings.append(1) or closed()
executor.add_node(node)
list(report('executor', lambda: executor.spin_once_until_future_complete(never)))
print('closings', len(closings), flush=True)
rclpy.shutdown()
"""


def test_what_arrives_during_a_look_is_not_overtaken_by_its_answer(monkeypatch):
    waiting = {'states': deque(), 'commands': deque([(1, 'answer to an earlier state')])}

    def take(topic):
        if not waiting[topic]:
            return None
        sent, message = waiting[topic].popleft()
        if sent == 1:  # meanwhile a state arrives on the topic that was polled, and its answer
            waiting['states'].append((2, 'state'))
            waiting['commands'].append((3, 'answer'))
        return message, {'source_timestamp': sent}

    monkeypatch.setattr(rclpy_compat, 'take_message', take)
    assert [sent for sent, _, _ in take_pending(waiting)] == [1, 2, 3]


@fast_dds
def test_a_closed_gate_lets_no_message_wake_the_process_and_none_is_lost(
    peer, processes, tmp_path
):
    code = _LISTENER.replace('{folder!r}', repr(str(tmp_path))).replace('{count}', str(_COUNT))
    listener = processes.start('listener', code=code)
    publisher = peer.publisher(Float64, 'numbers', _QOS)
    peer.spin_until(
        lambda: publisher.publish(Float64()) or 'connected' in listener.output, 30.0, 'a message'
    )
    wakes = {}
    for phase in ('closed', 'open', 'executor'):
        listener.says(f'ready {phase}')
        for number in range(_COUNT):
            publisher.publish(Float64(data=float(number)))
            time.sleep(0.002)
        (tmp_path / phase).touch()
        text = listener.says(f'result {phase}', 60.0).partition(f'result {phase} ')[2]
        wakes[phase], received = ast.literal_eval(text.splitlines()[0])
        assert received == list(range(_COUNT)), phase
    # Threads of the middleware also wake up by timers, a few times a second.
    assert wakes['closed'] < 0.3 * wakes['open'], wakes
    # How many messages come while it is closed depends on how busy the machine is.
    assert int(listener.says('closings').split()[-1]) > 3


def test_the_gate_stays_open_without_deliveries_and_after_a_loss(monkeypatch):
    group, slept = PolledGroup(in_bursts=True), []
    node = SimpleNamespace(subscriptions=[SimpleNamespace(callback_group=group)])
    gate = Mock(**{'has_delivered.return_value': False, 'closed': Mock(side_effect=nullcontext)})
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(rclpy_compat, 'time', clock)
    wake = SimpleNamespace(is_set=lambda: False, wait=slept.append)
    executor = SimpleNamespace(_gate=gate, get_nodes=lambda: [node], woken=wake)

    def closings() -> int:
        """Return how often the gate is closed within a poll."""
        gate.closed.reset_mock()
        PollingExecutor._sleep(executor)
        return gate.closed.call_count

    assert closings() == 0
    gate.has_delivered.return_value = True
    assert closings() >= 5
    gate.attach.assert_called_with(node.subscriptions)
    group.stop_bursts()
    assert closings() == 0


def test_a_request_that_has_arrived_for_a_service_that_is_destroyed_is_answered(peer):
    """Its client would wait for ever."""
    service = peer.node.create_service(Trigger, 'ending', lambda *_: None)
    client = peer.node.create_client(Trigger, 'ending')
    assert client.wait_for_service(20.0)
    answer = client.call_async(Trigger.Request())
    time.sleep(0.5)  # in which it arrives
    destroy(peer.node, [('service', service)])
    peer.spin_until(answer.done, 2.0, 'the answer')
    assert answer.result() == Trigger.Response(message='the controller was cleaned up')
