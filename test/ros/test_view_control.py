# SPDX-License-Identifier: Apache-2.0
"""The viewer's controls: a user in a browser changes, moves and stops a running controller."""

import re
import time

import numpy as np
import pytest
from browser import Tab
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.srv import GetState
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState

from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.description.urdf import read_description
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.ros.view import ArmCommands
from robot_dynamics_ros.viewing.arm import ArmInstant
from robot_dynamics_ros.viewing.page import Page
from robot_dynamics_ros.viewing.server import PageServer

pytestmark = pytest.mark.slow

NEWEST = QoSProfile(depth=1)  # queued messages must not be taken as current
NARROW = 880  # pixels: hardly any scene, so that the page answers at once


SLOW = 0.05  # slow motion, so that a busy machine and its browser keep up with the arm


def start(processes, pace: float) -> str:
    """Start simulator, controller and viewer with controls; return the page's address.

    Args:
        processes: Where.
        pace: Simulated time that goes by in a second, s.
    """
    arm = {'robot': 'scara', 'period': 0.004}
    processes.start('simulator', {**arm, 'mode': 'real_time', 'real_time_factor': pace})
    given = {**arm, 'diagnostics_period_s': 0.2, 'natural_frequency': [10.0]}
    given |= {'state_timeout_s': 60.0}
    controller = processes.start('controller', given)
    # Few pictures: a browser without a graphics card keeps the processors busy with each.
    viewer = processes.start('view', {'port': 0, 'control': True, 'rate_hz': 5.0})
    controller.says('active: computed_torque')
    return re.search(r'open (http://\S+)', viewer.says('viewer: open')).group(1)


def test_a_field_changes_the_node_and_a_refusal_says_why(processes, peer, browser):
    arm = start(processes, SLOW)
    with Tab(browser, arm.partition('/?')[0], NARROW) as stranger:
        stranger.reads('refused: open the address that the viewer printed')
    with Tab(browser, arm, NARROW) as tab:
        tab.reads('active: computed_torque')
        tab.reads('acts: 10')

        def until(node: str, name: str, value: object) -> None:
            tab.until(lambda: list(peer.get(node, name)) == value, f'{name} = {value}')

        tab.enter('arm/controller/natural_frequency', '10.5')
        tab.reads('acts: 10.5')
        until('controller', 'natural_frequency', [10.5])
        first = peer.get('controller', 'damping_ratio')[0]
        each = [first, 1.5 * first, first, first]
        tab.enter('arm/controller/damping_ratio', ' '.join(f'{x:g}' for x in each))
        until('controller', 'damping_ratio', each)
        tab.enter('arm/controller/damping_ratio', f'{first:g} 0 1 1')
        tab.button('apply').click()
        tab.reads("with damping_ratio 0 joint 'joint2' is unstable")
        assert list(peer.get('controller', 'damping_ratio')) == each
        tab.page.get_by_text('simulator', exact=True).first.click()
        tab.enter('arm/simulator/mass_factor', '1.2')
        until('simulator', 'mass_factor', [1.2])
        switch = tab.button('activate')
        tab.until(switch.is_enabled, 'a button of a living controller')
        next(node for node in processes.nodes if node.node == 'controller').kill()
        tab.reads('no diagnostics from controller for')
        tab.until(switch.is_disabled, 'a button without a controller')
        assert tab.errors == []


# In real time a machine that does much else may be late: it is tried again, and may not always be.
def test_stop_deactivates_within_a_fifth_of_a_second(processes, peer, browser):
    arm = start(processes, 1.0)
    states = peer.collect(JointState, '/joint_states', NEWEST)
    commands = peer.collect(JointState, '/controller/reference', NEWEST)
    waited = []
    with Tab(browser, arm, NARROW) as tab:
        tab.reads('active: computed_torque')
        tab.reads('It is not an emergency stop')
        peer.spin_until(lambda: states and commands, 10.0, 'states and references')
        while not waited or (min(waited) > 0.2 and len(waited) < 12):
            waited.append(stopping_time(tab, peer, states, commands))
            tab.button('activate').click()
            peer.spin_until(lambda: state(peer) == 'active', 60.0, 'activation')
            tab.reads('active: computed_torque', lambda: peer.spin_for(0.05))
    assert min(waited) <= 0.2, waited


def stopping_time(tab: Tab, peer, states: list[JointState], commands: list[JointState]) -> float:
    """Press STOP; return the simulated time until the last command, s."""
    button = tab.button('STOP')
    before = newest(peer, states)
    # The browser says when it clicked: it may have been busy with a picture.
    clicked = button.evaluate('element => {element.click(); return Date.now() / 1000}')
    after = newest(peer, states)
    pressed = float(np.interp(clicked, *zip(before, after, strict=True)))
    peer.spin_until(lambda: state(peer) == 'inactive', 60.0, 'deactivation')
    tab.reads('inactive')
    peer.spin_for(0.2)
    return 1e-9 * stamp_ns(commands[-1]) - pressed


def test_what_a_page_has_begun_ends_with_it(processes, peer):
    """Motion and push of one page end with it, and not with another; the server reports it."""
    processes.start('simulator', {'robot': 'scara', 'mode': 'real_time', 'real_time_factor': 0.2})
    controller = processes.start('controller', {'robot': 'scara', 'state_timeout_s': 60.0})
    controller.says('active: computed_torque')
    states = peer.collect(JointState, '/joint_states')
    pushes = peer.collect(WrenchStamped, '/simulator/push')
    page, said = Page(PageServer(0, 'test')), []
    view = page.arm('arm')
    view.set_description(read_description(shipped_robot('scara')).xml)
    peer.spin_until(lambda: states, 10.0, 'states')
    view.show(ArmInstant(position=dict(zip(states[-1].name, states[-1].position, strict=True))))
    commands = ArmCommands(peer.node, '/', view, lambda: None)

    def spin(done, what: str, seconds: float = 0.0) -> None:
        """Let the page act until something is true."""
        peer.spin_until(lambda: (commands.pump(), peer.spin_for(seconds), done())[2], 30.0, what)

    def move(target: float) -> None:
        commands.move_to({'joint1': target}, 0.1, 1, lambda *answer: said.append(answer))

    topic = '/controller/joint_trajectory'
    found = lambda: commands.simulated and peer.node.count_subscribers(topic)  # noqa: E731
    spin(found, 'simulator and controller')
    commands.push('link1', (0.0, 5.0, 0.0), 1)
    move(2.0)
    # The controller may discover the page late; all queued states are taken, so that none is old.
    spin(lambda: abs(states[-1].velocity[0]) > 0.02 or move(2.0), 'motion', 2.0)
    commands.end_client(2)
    commands.pump()
    assert pushes[-1].wrench.force.y == 5.0
    commands.end_client(1)
    ended = lambda: not pushes[-1].wrench.force.y and abs(states[-1].velocity[0]) < 1e-3  # noqa: E731
    spin(ended, 'end of the push, and rest')
    assert states[-1].position[0] < 1.9
    move(9.0)
    assert [said[0][0], said[-1][0], 'joint1' in said[-1][1]] == [True, False, True]
    page.close()


def newest(peer, states: list[JointState]) -> tuple[float, float]:
    """Return the wall time and the time of the newest state, s."""
    peer.spin_for(0.1)
    return time.time(), 1e-9 * stamp_ns(states[-1])


def state(peer) -> str:
    return peer.call(GetState, '/controller/get_state', GetState.Request()).current_state.label
