# SPDX-License-Identifier: Apache-2.0
"""What the viewer sees of an arm and its controller, as they appear, disappear and fail.

In a browser: ``test_view_control``, ``test/viewing``.
"""

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
import viser
from bags import MS
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from resting_arm import joint_state
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, String
from websockets.sync.client import connect

from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.view_topics import _STREAMS, ArmTopics
from robot_dynamics_ros.viewing.arm import ArmInstant


def address(viewer) -> str:
    return re.search(r'open (http://\S+)', viewer.says('viewer: open')).group(1)


@pytest.fixture
def seen(peer) -> ArmTopics:
    """Return what the viewer sees of an arm."""
    topics = ArmTopics(peer.node, '/', 'joint_states')
    topics.watch(True)
    peer.node.create_subscription(DiagnosticArray, '/diagnostics', topics.take_diagnostics, 10)
    return topics


def test_states_that_are_missing_or_no_numbers_are_an_alarm_until_they_come(peer, seen):
    """The page shows it, whatever it is: ``test/viewing``."""
    missing = peer.spin_until(lambda: seen.instant().alarm, 20.0, 'an alarm')
    assert missing.startswith('no joint states on /joint_states for')
    states = peer.publisher(JointState, 'joint_states')
    state = joint_state(NANO, [0.3, 0.5, 0.05, 0.0])
    for place, alarm in ((0.5, ''), (math.nan, 'non-finite positions: joint2'), (0.4, '')):
        state.position[1] = place
        state.header.stamp.sec += 1
        expected = alarm, repr(place)

        def shown() -> bool:
            states.publish(state)
            peer.spin_for(0.02)
            seen.poll()
            now = seen.instant()
            return (now.alarm, repr(now.position.get('joint2'))) == expected  # noqa: B023

        peer.spin_until(shown, 20.0, f'{expected}')


def test_the_error_is_that_of_a_state_and_the_reference_of_its_stamp(peer, seen):
    """The reference of a state comes three states later, by when the arm has moved 30 mrad."""
    states, references = (
        peer.publisher(JointState, topic) for topic in ('joint_states', 'controller/reference')
    )
    errors = set()
    for k in range(200):  # four times the motion
        at = lambda k: (NANO + k * MS, 0.01 * (k % 50))  # noqa: E731
        for topic, (stamp, place), off in ((states, at(k), 0.0), (references, at(k - 3), 142e-6)):
            topic.publish(joint_state(stamp, [place + off, 0.5, 0.05, 0.0]))
        peer.spin_for(0.005)
        seen.poll()
        errors.update(f'{1e6 * x:.1f}' for x in seen.instant().error.values())
    assert errors == {'142.0', '0.0'}


def diagnostics(**values: str) -> DiagnosticArray:
    """Return diagnostics of a controller."""
    pairs = [KeyValue(key=key, value=x) for key, x in values.items()]
    name = 'controller: control loop'
    return DiagnosticArray(status=[DiagnosticStatus(level=b'\0', name=name, values=pairs)])


@pytest.fixture
def run_of(peer, seen) -> Any:
    """Return functions that tell what a controller does, until it is seen."""
    statuses, parameters = (
        peer.publisher(String, f'controller/{name}', LATCHED)
        for name in ('trajectory_status', 'parameters')
    )
    health = peer.publisher(DiagnosticArray, '/diagnostics')

    def told(commands: int, **more: str) -> dict[str, str]:
        def known() -> bool:
            health.publish(diagnostics(commands=str(commands), **more))
            peer.spin_for(0.05)
            return seen.instant().status.get('commands') == str(commands)

        peer.spin_until(known, 20.0, f'diagnostics of {commands} commands')
        return dict(seen.instant().status)

    def hear(text: str) -> None:
        statuses.publish(String(data=text))
        peer.spin_until(lambda: seen.poll() or seen._answer == text, 20.0, text)

    def configure(law: str) -> None:
        parameters.publish(String(data=f'law: {law}'))
        peer.spin_until(lambda: seen.poll() or seen.parameters == {'law': law}, 20.0, law)

    return SimpleNamespace(told=told, hear=hear, configure=configure)


def test_a_new_run_of_the_controller_has_no_trajectory_of_the_one_before(run_of):
    """Whose last status follows its last diagnostics; answers of the new one stay."""
    run_of.configure('pd_gravity')
    assert run_of.told(9).keys().isdisjoint(['trajectory'])
    run_of.hear('reached')
    assert run_of.told(10)['trajectory'] == 'reached'
    run_of.hear('ended')
    run_of.configure('computed_torque')
    assert 'trajectory' not in run_of.told(1)
    run_of.told(2)
    run_of.configure('pd_gravity')
    run_of.hear('accepted')
    assert run_of.told(1)['trajectory'] == 'accepted'


def test_an_end_by_a_deactivation_is_past_once_the_controller_is_active_again(run_of):
    """Also where its count of commands is above that of the run before, or its parameters late."""
    run_of.configure('pd_gravity')
    run_of.hear('ended: the controller was deactivated [trajectory from 2.825 s]')
    assert 'trajectory' in run_of.told(9)
    assert 'trajectory' not in run_of.told(12, activated_s='19.890')
    run_of.hear('reached')
    assert run_of.told(13, activated_s='19.890')['trajectory'] == 'reached'
    assert 'trajectory' in run_of.told(0)
    run_of.configure('computed_torque')
    assert 'trajectory' not in run_of.told(1)


def test_what_is_no_message_of_its_type_is_seen_as_nothing(peer, seen):
    """From a publisher without this package, or another version of it."""
    kinds = {'joint_states': JointState, 'simulator/push': WrenchStamped,
             'controller/constraint_condition': Float64MultiArray}  # fmt: skip
    publishers = [peer.publisher(kind, topic) for topic, kind in kinds.items()]

    def heard() -> bool:
        for publisher in publishers:
            for content in (b'\0\1\0\0', b'\0\1\0\0' + bytes(12) + b'\xff' * 8):
                publisher.publish(content)
        peer.spin_for(0.02)
        seen.poll()
        assert seen.instant().position == {}
        return sum(bool(one.messages) for one in seen._streams.values()) == len(publishers)

    peer.spin_until(heard, 20.0, 'every stream')


def test_streams_are_subscribed_to_only_while_there_is_a_page(processes, peer):
    viewer = processes.start('view', {'port': 0})
    publishers = [
        peer.publisher(JointState, 'joint_states', 1),
        *(peer.publisher(kind, topic, 1) for topic, kind in _STREAMS.items()),
    ]
    described = peer.publisher(String, 'robot_description', LATCHED)

    def has(count: int) -> bool:
        return {publisher.get_subscription_count() for publisher in publishers} == {count}

    where = address(viewer).replace('http', 'ws')
    peer.spin_until(described.get_subscription_count, 30.0, 'the arm is found')
    assert has(0)
    with connect(where, subprotocols=[f'viser-v{viser.__version__}'], max_size=None):
        peer.spin_until(lambda: has(1), 30.0, 'subscriptions')
    peer.spin_until(lambda: has(0), 30.0, 'the end of the subscriptions')
    assert viewer.stop() == 0
    assert 'Traceback' not in viewer.output


def test_a_push_is_seen_with_its_wrench_and_the_link_that_it_touches(peer, seen):
    """For the arrows of the viewer, and the flash of a link that is touched while it looks."""
    topics = [
        peer.publisher(WrenchStamped, topic, 1)
        for topic in ('simulator/push', 'controller/external_wrench')
    ]
    health = peer.publisher(DiagnosticArray, '/diagnostics')

    def looked(contacts: int) -> ArmInstant:
        for number, topic in enumerate(topics):
            wrench = WrenchStamped(header=Header(frame_id=f'link{number}'))
            wrench.wrench.torque.z = 20.0 + number
            topic.publish(wrench)
        health.publish(diagnostics(contacts=str(contacts), touched_link='link2'))
        peer.spin_for(0.02)
        seen.poll()
        return seen.instant()

    peer.spin_until(lambda: looked(1).status, 20.0, 'diagnostics')
    assert looked(1).touched == ''
    complete = lambda: looked(2).touched and len(looked(2).wrenches) == 2  # noqa: E731
    peer.spin_until(complete, 20.0, 'a contact and both wrenches')
    found = looked(2)
    assert found.touched == 'link2'
    wrenches = {kind: (link, wrench[5]) for kind, (link, wrench) in found.wrenches.items()}
    assert wrenches == {'push': ('link0', 20.0), 'external': ('link1', 21.0)}
