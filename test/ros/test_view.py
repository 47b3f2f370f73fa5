# SPDX-License-Identifier: Apache-2.0
"""The viewer node: text in a browser while arms appear, disappear and fail."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
import viser
from bags import MS
from browser import Tab
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Vector3, WrenchStamped
from resting_arm import joint_state
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from websockets.sync.client import connect

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.messages import NANO
from robot_dynamics_ros.ros.node import LATCHED
from robot_dynamics_ros.ros.view_topics import ArmTopics
from robot_dynamics_ros.viewing.arm import ArmInstant

#: A state every 20 ms: processor time is left for the browser.
SLOW = {'mode': 'real_time', 'real_time_factor': 0.05}


def address(viewer) -> str:
    return re.search(r'open (http://\S+)', viewer.says('viewer: open')).group(1)


def state(peer, position: list[float]) -> JointState:
    return joint_state(peer.node.get_clock().now().nanoseconds, position)


@pytest.mark.slow
def test_the_page_says_what_is_missing_and_shows_what_comes(processes, peer, browser):
    viewer = processes.start('view', {'port': 0})
    states = peer.publisher(JointState, 'joint_states')
    position = [0.3, 0.5, 0.05, 0.0]

    def publish() -> None:
        states.publish(state(peer, position))
        peer.spin_for(0.02)

    with Tab(browser, address(viewer)) as tab:
        tab.reads('waiting for a URDF on /robot_description', publish)
        described = peer.publisher(String, 'robot_description', LATCHED)
        described.publish(String(data=read_description(shipped_robot('scara')).xml))
        tab.reads('0.300 rad', publish)
        tab.reads('no controller status received yet')
        position[1] = math.nan
        tab.reads('non-finite positions: joint2', publish)
        tab.reads('no joint states on /joint_states for')
        position[:] = [-0.4, 0.5, 0.05, 0.0]
        tab.reads('-0.400 rad', publish)

        # It stays among the events, which begin with their time.
        def alarm_ended() -> bool:
            return not any(line.startswith('no joint states') for line in tab.text.splitlines())

        tab.until(alarm_ended, 'the end of the alarm', publish)
        assert tab.errors == []
    assert viewer.stop() == 0
    assert 'Traceback' not in viewer.output


@pytest.fixture
def seen(peer) -> ArmTopics:
    """Return what the viewer sees of an arm."""
    topics = ArmTopics(peer.node, '/', 'joint_states')
    topics.watch(True)
    peer.node.create_subscription(DiagnosticArray, '/diagnostics', topics.take_diagnostics, 10)
    return topics


def test_the_error_is_that_of_a_state_and_the_reference_of_its_stamp(peer, seen):
    """The reference of a state comes three states later, by when the arm has moved 30 mrad."""
    states, references = (
        peer.publisher(JointState, topic) for topic in ('joint_states', 'controller/reference')
    )
    sent, errors = [], set()

    def move() -> bool:
        sent.append(joint_state(NANO + len(sent) * MS, [0.01 * (len(sent) % 50), 0.5, 0.05, 0.0]))
        states.publish(sent[-1])
        if len(sent) > 3:
            late = sent[-4]
            position = [late.position[0] + 142e-6, *late.position[1:]]
            references.publish(JointState(header=late.header, name=late.name, position=position))
        peer.spin_for(0.005)
        seen.poll()
        errors.update(f'{1e6 * x:.1f}' for x in seen.instant().error.values())
        return len(sent) > 200  # four times the motion

    peer.spin_until(move, 60.0, 'a motion')
    assert errors == {'142.0', '0.0'}


@pytest.fixture
def run_of(peer, seen) -> Any:
    """Return functions that tell what a controller does, until it is seen."""
    statuses, parameters = (
        peer.publisher(String, f'controller/{name}', LATCHED)
        for name in ('trajectory_status', 'parameters')
    )
    health = peer.publisher(DiagnosticArray, '/diagnostics')

    def told(commands: int, **more: str) -> dict[str, str]:
        values = [KeyValue(key=key, value=x) for key, x in more.items()]
        values.append(KeyValue(key='commands', value=str(commands)))
        one = DiagnosticStatus(level=b'\0', name='controller: control loop', values=values)

        def known() -> bool:
            health.publish(DiagnosticArray(status=[one]))
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
    sent = b'\0\1\0\0', b'\0\1\0\0' + bytes(12) + b'\xff' * 8
    publishers = [
        peer.publisher(kind, topic)
        for topic, kind in {'joint_states': JointState, 'simulator/push': WrenchStamped,
                            'controller/constraint_condition': Float64MultiArray,
                            'controller/reference': JointState}.items()
    ]  # fmt: skip

    def heard() -> bool:
        for publisher in publishers:
            publisher.publish(sent[0])
            publisher.publish(sent[1])
        peer.spin_for(0.02)
        seen.poll()
        assert seen.instant().position == {}
        return sum(bool(one.messages) for one in seen._streams.values()) == len(publishers)

    peer.spin_until(heard, 20.0, 'four streams')


def test_streams_are_subscribed_to_only_while_there_is_a_page(processes, peer):
    viewer = processes.start('view', {'port': 0})
    topics = {'joint_states': JointState, 'controller/reference': JointState,
              'controller/effort_components': JointState, 'controller/constraint': JointState,
              'controller/constraint_condition': Float64MultiArray,
              'controller/external_wrench': WrenchStamped}  # fmt: skip
    publishers = [peer.publisher(kind, topic, 1) for topic, kind in topics.items()]
    described = peer.publisher(String, 'robot_description', LATCHED)

    def subscribers() -> set[int]:
        return {publisher.get_subscription_count() for publisher in publishers}

    where = address(viewer).replace('http', 'ws')
    peer.spin_until(described.get_subscription_count, 30.0, 'the arm is found')
    assert subscribers() == {0}
    with connect(where, subprotocols=[f'viser-v{viser.__version__}'], max_size=None):
        peer.spin_until(lambda: subscribers() == {1}, 30.0, 'subscriptions')
    peer.spin_until(lambda: subscribers() == {0}, 30.0, 'the end of the subscriptions')


@pytest.mark.slow
def test_a_controller_that_dies_and_returns_is_seen(processes, browser):
    given = {'robot': 'scara', 'autostart': True, 'diagnostics_period_s': 0.2}
    processes.start('simulator', {'robot': 'scara', **SLOW})
    viewer = processes.start('view', {'port': 0, 'control': True})
    controller = processes.start('controller', given)
    with Tab(browser, address(viewer)) as tab:
        tab.reads('active: computed_torque')
        for text in ('rad, error', 'gravity'):  # an origin of the efforts
            tab.reads(text)
        switch = tab.page.get_by_role('button', name='activate', exact=True)
        tab.until(switch.is_enabled, 'a button of a living controller')
        controller.kill()
        tab.reads('no diagnostics from controller for')
        tab.until(switch.is_disabled, 'a button without a controller')
        processes.start('controller', given | {'share_command_topic': True})
        tab.reads('over: no diagnostics from controller')
        tab.reads('active: computed_torque')
        tab.until(switch.is_enabled, 'a button of a living controller')
        assert tab.errors == []
    assert viewer.stop() == 0


def test_a_push_is_seen_with_its_wrench_and_the_link_that_it_touches(processes, peer, seen):
    """As the viewer reads it from the topics of a running arm, for its arrows and its flash."""
    processes.start('simulator', {'robot': 'scara'})
    given = {'contact_reaction': 'report', 'wrench_frame': 'tool', 'diagnostics_period_s': 0.1}
    given |= {'robot': 'scara', 'use_sim_time': True, 'state_timeout_s': 60.0}
    processes.start('controller', given)
    hand = peer.publisher(WrenchStamped, 'simulator/push', 1)
    push = WrenchStamped()
    push.header.frame_id, push.wrench.torque = 'link2', Vector3(z=20.0)  # N m: no lever needed
    touched = set()

    def pushed() -> ArmInstant | None:
        hand.publish(push)
        peer.spin_for(0.02)
        seen.poll()
        now = seen.instant()
        touched.add(now.touched)
        # All of one instant: a little later one of them may be too old.
        complete = {'push', 'external'} <= now.wrenches.keys() and 'last_contact' in now.status
        return now if complete and 'link2' in touched else None

    peer.spin_until(lambda: seen.poll() and seen.instant().status, 60.0, 'diagnostics')
    assert seen.instant().touched == ''
    found = peer.spin_until(pushed, 60.0, 'a contact and the wrench that explains it')
    assert touched <= {'', 'link2'}
    link, wrench = found.wrenches['push']
    assert (link, wrench[5]) == ('link2', 20.0)
    assert found.wrenches['external'][0] == 'tool'
    assert 'on link2: +' in found.status['last_contact']


@pytest.mark.slow
def test_two_arms_stand_on_one_page(processes, browser):
    for side, arm in (('left', 'scara'), ('right', 'four_dof')):
        place = ('-r', f'__ns:=/{side}')
        processes.start('simulator', {'robot': arm, **SLOW}, *place)
    viewer = processes.start('view', {'port': 0})
    with Tab(browser, address(viewer)) as tab:
        for text in ('left', 'of 150 N', 'right', 'of 35 N m'):
            tab.reads(text)
    assert viewer.stop() == 0
