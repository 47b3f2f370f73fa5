# SPDX-License-Identifier: Apache-2.0
"""The trajectory node between a controller and a simulator; here the test is the controller."""

from __future__ import annotations

import time

import numpy as np
import pytest
from peer import LATCHED, ControllerStandIn
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from resting_arm import JOINTS, joint_state
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.messages import NANO, stamp_ns
from robot_dynamics_ros.planning.trajectory_plan import MOTION, make_plan

FIRST = [-0.462, 1.478, 0.10, 0.2]
MOVE = {
    'robot': 'scara',
    'kind': 'point',
    'goal': [0.1, 0.9, 0.15, 0.0],
    'duration_s': 1.0,
    'start_time_s': 0.25,
    'controller': 'test_peer',
}


class FakeController(ControllerStandIn):
    """Becomes active on request, answers trajectories with one text, and never moves."""

    def __init__(self, peer, answer='accepted: by the test', *, active=True):
        super().__init__(peer, active=active)
        node, self.answer = peer.node, answer
        self.trajectories: list[JointTrajectory] = []
        self._status = node.create_publisher(String, '~/trajectory_status', LATCHED)
        self._commands = node.create_publisher(Float64MultiArray, 'effort_controller/commands', 1)
        node.create_subscription(JointTrajectory, '~/joint_trajectory', self._on_trajectory, 1)
        node.create_subscription(JointState, 'joint_states', self._on_state, 10)
        self.stamps: list[int] = []

    def _on_trajectory(self, msg):
        self.trajectories.append(msg)
        if self.answer:
            self._status.publish(String(data=self.answer))

    def _on_state(self, msg):
        self.stamps.append(stamp_ns(msg))
        self._commands.publish(Float64MultiArray(data=[0.0] * 4))


class Resting:
    """A driver whose arm stays where it is."""

    def __init__(self, peer):
        self._states = peer.node.create_publisher(JointState, 'joint_states', 10)
        self._clock = peer.node.create_publisher(Clock, '/clock', 10)
        self._published = 0.0

    def publish(self, seconds: float) -> None:
        """Publish a state at a time, in another order of joints, at most every 10 ms."""
        if time.monotonic() < self._published + 0.01:
            return
        self._published = time.monotonic()
        names, position = ['gripper', *reversed(JOINTS)], [7.0, *reversed(FIRST)]
        state = joint_state(round(seconds * NANO), position, names=names)
        self._clock.publish(Clock(clock=state.header.stamp))
        self._states.publish(state)


def now(peer) -> float:
    return peer.node.get_clock().now().nanoseconds / NANO


def ended(peer, sender, code: int, said: str, meanwhile=lambda: None) -> None:
    """Wait for the end of the node; check its exit code and that its output has a text."""
    peer.spin_until(lambda: meanwhile() or sender.returncode is not None, 60, 'end of the node')
    assert sender.wait() == code
    assert said in sender.output


def paused_simulator(processes):
    return processes.start(
        'simulator',
        {'robot': 'scara', 'initial_position': FIRST, 'start_paused': True, 'on_end': 'exit'},
    )


def test_a_trajectory_is_accepted_before_the_simulator_runs_to_its_end(processes, peer):
    controller = FakeController(peer, active=False)
    ready = []

    def on_ready(_, response):
        ready.append(len(controller.trajectories))
        response.success, response.message = len(ready) > 2, 'not before the third time'
        return response

    peer.node.create_service(Trigger, 'somebody/ready', on_ready)
    simulator = paused_simulator(processes)
    sender = processes.start(
        'trajectory',
        MOVE | {'ready_services': ['somebody/ready'], 'unpause_simulator': True,
                'end_simulator': True, 'settle_s': 0.05, 'payload_mass': 13.0},
    )  # fmt: skip
    waiting = 'waiting for test_peer: activation (it is inactive)'
    peer.spin_until(lambda: waiting in sender.output, 60, waiting)
    assert not controller.trajectories  # not active yet
    controller.active = True
    ended(peer, sender, 0, 'sent point: 101 points from t = 0.250000 s to t = 1.250000 s')
    assert ready[:3] == [0, 0, 0]
    assert "joint 'joint3' needs 97% of its effort limit" in sender.output, 'with the payload'
    peer.spin_until(lambda: simulator.returncode is not None, 60, 'end of the simulator')
    assert 'end of the run: t = 1.300000 s' in simulator.output
    message = controller.trajectories[0]
    assert stamp_ns(message) == 250_000_000
    assert list(message.joint_names) == list(JOINTS)
    plan = make_plan(
        sample('scara').tree, {spec.name: spec.default for spec in MOTION} | MOVE, np.array(FIRST)
    )
    for field, rows in (
        ('positions', plan.position),
        ('velocities', plan.velocity),
        ('accelerations', plan.acceleration),
    ):
        np.testing.assert_array_equal([getattr(p, field) for p in message.points], rows)
    last = message.points[-1].time_from_start
    assert last.sec * NANO + last.nanosec == plan.times_ns[-1]


@pytest.mark.parametrize(
    ('answer', 'said'),
    [
        (
            "rejected: point 0: is at time 0 and 0.9 from joint 'joint1' of the reference; begin",
            'not accepted by test_peer; rejected: point 0: is at time 0 and 0.9 from joint '
            "'joint1' of the reference; begin; if the driver has its own names, signs or units, "
            'set state_topic to test_peer/reference',
        ),
        ('', 'error: test_peer: no answer to the trajectory within 10 s'),
    ],
)
def test_a_trajectory_that_is_not_accepted_ends_the_node_with_the_reason_and_nothing_runs(
    processes, peer, answer, said
):
    controller = FakeController(peer, answer)
    paused_simulator(processes)
    peer.spin_until(lambda: controller.stamps, 60, 'states')
    sender = processes.start('trajectory', MOVE | {'unpause_simulator': True, 'timeout_s': 10.0})
    ended(peer, sender, 1, said)
    assert (len(controller.trajectories) > 1) == (not answer), 'without an answer it is repeated'
    peer.spin_for(0.3)
    assert set(controller.stamps) == {0}


@pytest.mark.parametrize('simulated', [True, False])
def test_a_motion_that_a_stall_discarded_before_it_began_is_sent_again_or_an_error(
    processes, peer, simulated
):
    """A stall of the states until after the start; the arm is still where it was."""
    controller, latest, arm = FakeController(peer), [0], Resting(peer)

    def clock() -> float:
        if not simulated:
            return now(peer)
        latest[0] += 1
        return 10.0 + 1e-3 * latest[0]

    start = 11.0 if simulated else 0.0
    given = MOVE | {'start_time_s': start, 'start_delay_s': 1.0, 'use_sim_time': simulated}
    sender = processes.start('trajectory', given)

    def sent(count):
        arm.publish(clock())
        return len(controller.trajectories) >= count

    peer.spin_until(lambda: sent(1), 60, 'the trajectory')
    sender.says('sent point')
    if simulated:
        peer.spin_for(0.7)  # states before the start do not show that it has begun
    latest[0] += 3000
    controller._status.publish(String(data='held: states returned after a timeout'))
    if not simulated:
        said = 'error: motion: has not begun: held: states returned'
        ended(peer, sender, 1, said, lambda: arm.publish(clock() + 3.0))
        return
    peer.spin_until(lambda: sent(2), 60, 'the trajectory again')
    latest[0] += 3000
    said = 'the motion has not begun: held: states returned'
    ended(peer, sender, 0, said, lambda: arm.publish(clock()))
    starts = [msg.header.stamp.sec for msg in controller.trajectories]
    assert starts[-1] > starts[0]


@pytest.mark.parametrize(
    ('status', 'code', 'said'),
    [
        ('reached', 0, 'the motion is completed'),
        ('aborted: touched', 1, 'error: motion: was not completed: aborted: touched'),
        ('accepted: 3 points from 9 s', 1, 'was not completed: accepted: 3 points'),
    ],
)
def test_with_wait_the_node_stays_until_the_end_of_the_motion(processes, peer, status, code, said):
    """It begins on the clock of the states, whatever that of the node is."""
    controller, arm, begin = FakeController(peer), Resting(peer), now(peer) - 5.0

    def move() -> None:
        arm.publish(now(peer) - begin)

    given = {'start_time_s': 0.0, 'start_delay_s': 0.0, 'wait': True}
    sender = processes.start('trajectory', MOVE | given)
    peer.spin_until(lambda: move() or controller.trajectories, 60, 'the trajectory')
    sender.says('sent point')
    assert 5.0 < stamp_ns(controller.trajectories[0]) / NANO <= now(peer) - begin
    assert sender.returncode is None
    controller._status.publish(String(data=status))
    ended(peer, sender, code, said, move)


@pytest.mark.parametrize('ends', ['its time', 'its states'])
def test_with_wait_a_node_that_ends_the_simulator_stays_until_then(processes, peer, ends):
    """In lockstep it needs the controller to its end, and that is ended after the node."""
    controller, arm, begin = FakeController(peer), Resting(peer), now(peer) - 5.0
    times = []

    def set_end(request, response):
        times.append(request.parameters[0].value.double_value)
        response.results = [SetParametersResult(successful=True)]
        return response

    peer.node.create_service(SetParameters, 'simulator/set_parameters', set_end)

    def move(late: float = 0.0) -> None:
        arm.publish(now(peer) - begin + late)

    given = {'start_time_s': 0.0, 'wait': True, 'end_simulator': True, 'settle_s': 500.0}
    sender = processes.start('trajectory', MOVE | given)
    peer.spin_until(lambda: move() or 'sent point' in sender.output, 60, 'the trajectory')
    start = stamp_ns(controller.trajectories[0]) / NANO
    assert times == [pytest.approx(start + 501.0)]
    controller._status.publish(String(data='reached'))
    peer.spin_until(lambda: move() or 'is completed' in sender.output, 60, 'the end')
    peer.spin_until(lambda: move() or now(peer) - begin > start + 2.0, 60, 'the states')
    assert sender.returncode is None
    ended(peer, sender, 0, '', (lambda: move(600.0)) if ends == 'its time' else lambda: None)


def test_without_life_cycle_a_robot_that_comes_by_topic_goes_unasked_to_a_goal_set_before(
    processes, peer
):
    received, arm = peer.collect(JointTrajectory, '~/joint_trajectory'), Resting(peer)
    given = {'robot': '', 'confirm': False, 'exit_when_done': False, 'start_time_s': 0.0}
    sender = processes.start('trajectory', MOVE | given)

    goal = [0.2, 0.8, 0.1, 0.3]
    assert peer.set('trajectory', goal=goal).successful
    # The node's start values can no longer change.
    for name, value in (('kind', 'none'), ('controller', 'other'), ('exit_when_done', False)):
        assert 'read-only' in peer.set('trajectory', **{name: value}).reason
    description = peer.node.create_publisher(String, 'robot_description', LATCHED)
    description.publish(String(data=sample('scara').xml))
    peer.spin_until(lambda: arm.publish(now(peer)) or received, 60, 'the trajectory')
    np.testing.assert_array_equal(received[0].points[0].positions, FIRST)
    np.testing.assert_allclose(received[0].points[-1].positions, goal, rtol=0, atol=1e-15)
    start = stamp_ns(received[0]) / NANO
    assert now(peer) - 60.0 < start < now(peer) + 1.0  # start_delay_s after it was sent
    sender.says('sent point')
    assert sender.returncode is None  # it stays
    assert sender.stop() == 0


@pytest.mark.parametrize(
    ('joints', 'said'),
    [
        ([], 'error: joint_states: no state (nobody publishes it: start a driver'),
        (
            ['a', 'b'],
            'never seen: joint1, joint2, joint3, joint4; the last message names: a, b; if the '
            'driver has its own names, signs or units, set state_topic to test_peer/reference',
        ),
        (
            JOINTS,
            'joint_states begins at [45.0, 90.0, 90.0, 90.0]; its velocity limit is 1.1; if the '
            'driver has its own names, signs or units, set state_topic to test_peer/reference',
        ),
    ],
)
def test_states_that_are_missing_of_other_joints_or_units_are_named(processes, peer, joints, said):
    sender = processes.start('trajectory', MOVE | {'timeout_s': 8.0 if joints else 0.3})
    states = joints and peer.node.create_publisher(JointState, 'joint_states', 10)

    def publish() -> None:
        if joints:
            states.publish(joint_state(0, [45.0, 90.0, 90.0, 90.0][: len(joints)], names=joints))

    ended(peer, sender, 1, said, publish)
