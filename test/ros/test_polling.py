# SPDX-License-Identifier: Apache-2.0
"""Polling nodes: messages queued between two polls are taken completely and in order."""

from __future__ import annotations

from collections import deque

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64

from robot_dynamics_ros.ros import executors
from robot_dynamics_ros.ros.executors import PolledGroup, take_pending


def test_messages_of_several_topics_come_in_the_order_in_which_they_were_sent(peer):
    node, count, polled = peer.node, 100, {'callback_group': PolledGroup()}
    kinds = {'states': JointState, 'commands': Float64}
    senders = {name: node.create_publisher(kind, name, count) for name, kind in kinds.items()}
    listeners = {
        node.create_subscription(kind, name, lambda _: None, count, **polled): name
        for name, kind in kinds.items()
    }
    connected = lambda: all(x.get_subscription_count() for x in senders.values())  # noqa: E731
    peer.spin_until(connected, 30.0, 'a connection')
    sent = []
    for k in range(count):
        for name in ('states', 'commands'):
            senders[name].publish(kinds[name]())
            sent.append((name, k))
    received = []
    peer.spin_until(
        lambda: received.extend(take_pending(listeners)) or len(received) >= len(sent), 30.0, 'all'
    )
    assert [listeners[one] for _, one, _ in received] == [name for name, _ in sent]
    assert sorted(when for when, _, _ in received) == [when for when, _, _ in received]


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

    monkeypatch.setattr(executors, 'take_message', take)
    assert [sent for sent, _, _ in take_pending(waiting)] == [1, 2, 3]
