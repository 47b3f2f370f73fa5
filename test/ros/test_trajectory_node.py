# SPDX-License-Identifier: Apache-2.0
"""The trajectory node between a controller and a simulator; here the test is the controller."""

import os
import signal
import time

import numpy as np
import pytest
import tables
from answering import Answering
from echo_arm import EchoArm
from peer import LATCHED, ControllerStandIn
from processes import STOPPABLE
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from resting_arm import ARM, JOINTS, PLACE, joint_state, trajectory
from rosgraph_msgs.msg import Clock
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.messages import NANO, from_start, stamp_ns
from robot_dynamics_ros.parameters import defaults
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
    """Answers trajectories with one text; its arm stays where it is.

    Like a controller it keeps the last status only, which names the trajectory.

    Attributes:
        trajectories: Every trajectory so far.
    """

    def __init__(self, peer, answer='accepted: by the test', *, active=True) -> None:
        super().__init__(peer, active=active)
        self._peer, self._answer, self._published = peer, answer, 0.0
        self._begin = time.time() - 5.0
        self.trajectories: list[JointTrajectory] = []
        self._status = peer.publisher(String, '~/trajectory_status', LATCHED)
        self._states = peer.publisher(JointState, 'joint_states')
        self._clock = peer.publisher(Clock, '/clock')
        subscribe = peer.node.create_subscription
        subscribe(JointTrajectory, '~/joint_trajectory', self._on_trajectory, 1)

    def _on_trajectory(self, msg: JointTrajectory) -> None:
        self.trajectories.append(msg)
        if self._answer:
            self.say(self._answer)

    def say(self, status: str, *, later: int = 0, more: str = '') -> None:
        """Publish a status of the last trajectory, or of one that starts so much later, ns."""
        subject = from_start(stamp_ns(self.trajectories[-1]) + later)
        self._status.publish(String(data=f'{status} [trajectory {subject}{more}]'))

    @property
    def now(self) -> float:
        """Time of the states, s: five seconds at first, whatever the clock of the node is."""
        return time.time() - self._begin

    def publish(self, seconds: float | None = None) -> None:
        """Publish a state, by default of now, in another order of joints, every 10 ms at most."""
        if time.monotonic() < self._published + 0.01:
            return
        self._published = time.monotonic()
        names, position = ['gripper', *reversed(JOINTS)], [7.0, *reversed(FIRST)]
        state = joint_state(round((seconds or self.now) * NANO), position, names=names)
        self._clock.publish(Clock(clock=state.header.stamp))
        self._states.publish(state)

    def until(self, done, what: str) -> None:
        """Publish states until something is true."""
        self._peer.spin_until(lambda: self.publish() or done(), 60, what)


@pytest.fixture
def start(processes):
    """Return a function that starts the node."""
    return lambda *words, **given: processes.start(
        'trajectory', MOVE | given, *words, env=STOPPABLE
    )


def ended(peer, sender, code: int, said: str, meanwhile=lambda: None) -> None:
    """Wait for the end of the node; check its exit code and that its output has a text."""
    peer.spin_until(lambda: meanwhile() or sender.returncode is not None, 60, 'end of the node')
    assert sender.wait() == code
    assert said in sender.output


def paused_simulator(processes):
    given = {'robot': 'scara', 'initial_position': FIRST, 'start_paused': True, 'on_end': 'exit'}
    return processes.start('simulator', given)


def test_a_trajectory_is_accepted_before_the_simulator_runs_to_its_end(processes, peer, start):
    controller, _, ready = FakeController(peer, active=False), Answering(peer), []

    def on_ready(_, response):
        ready.append(len(controller.trajectories))
        response.success, response.message = len(ready) > 2, 'not before the third time'
        return response

    peer.node.create_service(Trigger, 'somebody/ready', on_ready)
    simulator = paused_simulator(processes)
    sender = start(
        ready_services=['somebody/ready'], unpause_simulator=True, end_simulator=True,
        settle_s=0.05, payload_mass=13.0,
    )  # fmt: skip
    waiting = 'waiting for test_peer: activation (it is inactive)'
    peer.spin_until(lambda: waiting in sender.output, 60, waiting)
    assert not controller.trajectories  # not active yet
    controller.active = True
    ended(peer, sender, 0, '101 points from t = 0.250000 s to t = 1.250000 s; it needs 97% of')
    assert ready[:3] == [0, 0, 0]
    assert "joint 'joint3' needs 97% of its effort limit" in sender.output, 'with the payload'
    peer.spin_until(lambda: simulator.returncode is not None, 60, 'end of the simulator')
    assert 'end of the run: t = 1.300000 s' in simulator.output
    message = controller.trajectories[0]
    assert (stamp_ns(message), tuple(message.joint_names)) == (250_000_000, JOINTS)
    plan = make_plan(sample('scara').tree, defaults(MOTION) | MOVE, np.array(FIRST))
    sent = [(x.positions, x.velocities, x.accelerations) for x in message.points]
    expected = [*zip(plan.position, plan.velocity, plan.acceleration, strict=True)]
    np.testing.assert_array_equal(sent, expected)
    last = message.points[-1].time_from_start
    assert last.sec * NANO + last.nanosec == plan.times_ns[-1]


@tables.rows(
    'answer said',
    """
"rejected: 0.9 from joint 'joint1' of the reference; begin", "not accepted by test_peer; rejected: 0.9 from joint 'joint1' of the reference; begin; if the driver has its own names, signs or units, set state_topic to test_peer/reference"
'', 'error: test_peer: no answer to the trajectory within 10 s'
""",  # noqa: E501
)
def test_a_trajectory_that_is_not_accepted_ends_the_node_with_the_reason_and_nothing_runs(
    processes, peer, start, answer, said
):
    controller, driver = FakeController(peer, answer), Answering(peer)
    paused_simulator(processes)
    peer.spin_until(lambda: driver.answers, 60, 'states')
    ended(peer, start(unpause_simulator=True, timeout_s=10.0), 1, said)
    assert (len(controller.trajectories) > 1) == (not answer), 'without an answer it is repeated'
    peer.spin_for(0.3)
    assert len(driver.states) == 1


@pytest.mark.parametrize('simulated', [True, False])
def test_a_motion_that_a_stall_discarded_before_it_began_is_sent_again_or_an_error(
    peer, start, simulated
):
    """A stall of the states until after the start; the arm is still where it was."""
    controller, stalled = FakeController(peer), 0.0
    sender = start(start_time_s=0.0, start_delay_s=1.0, use_sim_time=simulated)

    def publish() -> None:
        controller.publish(controller.now + stalled)

    def sent(count: int) -> None:
        peer.spin_until(
            lambda: publish() or len(controller.trajectories) >= count, 60, f'trajectory {count}'
        )

    sent(1)
    sender.says('sent point')
    if simulated:
        peer.spin_for(0.7)  # states before the start do not show that it has begun
    stalled = 3.0
    controller.say('held: states returned after a timeout')
    reason = 'not begun: held: states returned'
    if not simulated:
        ended(peer, sender, 1, f'error: motion: has {reason}', publish)
        return
    sent(2)
    stalled = 6.0
    ended(peer, sender, 0, f'the motion has {reason}', publish)
    first, *_, last = (stamp_ns(message) for message in controller.trajectories)
    assert last > first


@tables.rows(
    'answer status later more code said',
    """
'accepted: by the test', reached, 0, '', 0, the motion is completed
'accepted: by the test', 'aborted: touched', 0, '', 1, 'error: motion: was not completed: aborted: touched'
'accepted: by the test', 'accepted: 3 points', 2000, '', 1, 'was not completed: accepted: 3 points'
'accepted: by the test', reached, 2000, '', 1, 'was not completed: reached [trajectory from'
'', 'aborted: touched', 0, '', 1, 'was not completed: aborted: touched;'
'', 'held: by the test', 0, ', reached', 0, the motion is completed
""",  # noqa: E501
)
def test_with_wait_the_node_stays_until_the_end_of_the_motion(
    peer, start, answer, status, later, more, code, said
):
    """It begins on the clock of the states, whatever that of the node is.

    On a busy machine the end follows before the answer is delivered, which is then lost.
    """
    controller = FakeController(peer, answer)
    sender = start(start_time_s=0.0, start_delay_s=0.0, wait=True)
    controller.until(
        lambda: controller.trajectories and (not answer or 'sent point' in sender.output),
        'the trajectory',
    )
    assert 5.0 < stamp_ns(controller.trajectories[0]) / NANO <= controller.now
    assert sender.returncode is None
    controller.say(status, later=later, more=more)
    ended(peer, sender, code, said, controller.publish)


@pytest.mark.parametrize(
    ('states', 'said'),
    [(True, 'controller goes on; an empty trajectory on /test_peer/joint_trajectory ends it'),
     (False, 'error: motion: was interrupted before it was sent')],
)  # fmt: skip
def test_with_wait_an_interrupted_node_says_what_the_motion_does_and_fails(
    peer, start, states, said
):
    controller = FakeController(peer)
    sender = start(start_time_s=0.0, start_delay_s=0.0, wait=True)
    if states:
        controller.until(lambda: 'sent point' in sender.output, 'the trajectory')
    else:
        peer.spin_until(lambda: 'waiting for joint_states' in sender.output, 60, 'a node')
    assert sender.stop() == 1
    assert said in sender.output


def test_of_two_controllers_of_one_name_none_is_sent_a_motion(peer, start):
    """One would reject it, while the other moves the arm."""
    controller = FakeController(peer)
    topic = 'test_peer/joint_trajectory'
    second = peer.node.create_subscription(JointTrajectory, topic, lambda _: None, 1)
    sender = start(start_time_s=0.0, start_delay_s=0.0)
    waiting = 'waiting for test_peer: subscription of one node of this name'
    controller.until(lambda: waiting in sender.output, waiting)
    assert not controller.trajectories
    peer.node.destroy_subscription(second)
    controller.until(lambda: controller.trajectories, 'the trajectory')


def test_a_status_of_another_trajectory_is_no_answer(peer, start):
    """Latched before, or of another sender at the same time."""
    controller = FakeController(peer, answer='')
    sender = start(start_time_s=0.0, start_delay_s=0.0, wait=True)
    controller.until(lambda: controller.trajectories, 'the trajectory')
    controller.say('rejected: by the test', later=2000)
    controller.until(lambda: len(controller.trajectories) > 1, 'the trajectory once more')
    controller.say('accepted: by the test')
    controller.say('reached')
    ended(peer, sender, 0, 'the motion is completed', controller.publish)


def test_a_stopped_node_learns_from_the_controller_what_became_of_its_motion(
    processes, peer, start
):
    """Several statuses later: the controller keeps the last one only.

    Nor does it ask again before it has read them: the answer would be that of now.
    """
    processes.start('controller', ARM)
    arm = EchoArm(peer)
    arm.until(lambda: len(arm.commands) > 5, 'commands')
    moving = {'robot': ARM['robot'], 'controller': 'controller', 'goal': (PLACE + 0.1).tolist()}
    times = {'duration_s': 5.0, 'start_time_s': 0.0, 'start_delay_s': 0.0}
    sender = start(**moving, **times, wait=True)
    sent = peer.collect(JointTrajectory, 'controller/joint_trajectory')
    arm.until(lambda: sent, 'the trajectory')
    os.kill(sender.pid, signal.SIGSTOP)
    arm.until(lambda: any('accepted' in x.data for x in arm.status), 'the answer')
    arm.send(trajectory([]))  # answered twice: the motion is aborted, the arm held
    arm.until(lambda: arm.status[-1].data.startswith('held'), 'the hold')
    repeats = time.monotonic() + 2.0
    arm.until(lambda: time.monotonic() > repeats, 'the time of a repetition')
    os.kill(sender.pid, signal.SIGCONT)
    ended(peer, sender, 1, 'error: motion: was not completed: ', arm.publish)


@pytest.mark.parametrize('late', [600.0, None], ids=['its time', 'its states'])
def test_with_wait_a_node_that_ends_the_simulator_stays_until_then(peer, start, late):
    """In lockstep it needs the controller to its end, and that is ended after the node."""
    controller, times = FakeController(peer), []

    def set_end(request, response):
        times.append(request.parameters[0].value.double_value)
        response.results = [SetParametersResult(successful=True)]
        return response

    peer.node.create_service(SetParameters, 'simulator/set_parameters', set_end)
    sender = start(start_time_s=0.0, wait=True, end_simulator=True, settle_s=500.0)
    controller.until(lambda: 'sent point' in sender.output, 'the trajectory')
    begin = stamp_ns(controller.trajectories[0]) / NANO
    assert times == [pytest.approx(begin + 501.0)]
    controller.say('reached')
    controller.until(lambda: 'is completed' in sender.output, 'the end')
    controller.until(lambda: controller.now > begin + 2.0, 'states after the motion')
    assert sender.returncode is None
    ended(peer, sender, 0, '', lambda: late and controller.publish(late))


def test_without_life_cycle_a_robot_that_comes_by_topic_goes_unasked_to_a_goal_set_before(
    peer, start
):
    controller, goal = FakeController(peer, active=False), [0.2, 0.8, 0.1, 0.3]
    sender = start(robot='', confirm=False, exit_when_done=False, start_time_s=0.0)
    assert peer.set('trajectory', goal=goal).successful
    # The node's start values can no longer change.
    assert 'read-only' in peer.set('trajectory', kind='none').reason
    description = String(data=sample('scara').xml)
    peer.publisher(String, 'robot_description', LATCHED).publish(description)
    controller.until(lambda: controller.trajectories, 'the trajectory')
    first, *_, last = (point.positions for point in controller.trajectories[0].points)
    np.testing.assert_allclose([first, last], [FIRST, goal], rtol=0, atol=1e-15)
    sender.says('sent point')
    assert sender.returncode is None  # it stays
    assert sender.stop() == 0


@tables.rows(
    'joints said',
    """
[], 'error: joint_states: no state (no publisher discovered so far; start'
[a, b], 'never seen: joint1, joint2, joint3, joint4; the last message names: a, b; if the driver has its own names, signs or units, set state_topic to test_peer/reference'
[joint1, joint2, joint3, joint4], 'joint_states begins at [45.0, 90.0, 90.0, 90.0]; its velocity limit is 1.1; if the driver has its own names, signs or units, set state_topic to test_peer/reference'
""",  # noqa: E501
)
def test_states_that_are_missing_of_other_joints_or_units_are_named(peer, start, joints, said):
    sender = start('-r', 'joint_states:=states', timeout_s=8.0 if joints else 5.0)
    states = joints and peer.publisher(JointState, 'states')

    def publish() -> None:
        if joints:
            states.publish(joint_state(0, [45.0, 90.0, 90.0, 90.0][: len(joints)], names=joints))

    ended(peer, sender, 1, said, publish)
    if not joints:  # told once, and not before peers are discovered
        assert sender.output.count('waiting for joint_states: state') == 1
