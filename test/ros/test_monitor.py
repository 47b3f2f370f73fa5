# SPDX-License-Identifier: Apache-2.0
"""The monitor node in a separate process, fed with a recording of Gazebo and synthetic arms.

Oracle of its efforts: Pinocchio, built from the URDF text.
"""

import time
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from peer import RELIABLE
from recorded_bags import excerpt
from resting_arm import JOINTS, PERIOD_NS, RestingArm, joint_state
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from urdf_text import described

from robot_dynamics_ros.messages import NANO, stamp_ns

ORACLE = PinocchioOracle.of(sample('scara'))
PARTS = ('inertia', 'coriolis', 'gravity', 'armature', 'friction')


class Feed(RestingArm):
    """Publishes states and waits for the residuals of the monitor.

    A residual has the timestamp of its first state, which identifies it.
    """

    def __init__(self, peer, joints=JOINTS, place=(0.0,) * 4) -> None:
        super().__init__(peer, place, joints)
        self.residuals = peer.collect(JointState, 'monitor/residual')
        peer.spin_until(self._gap_noticed, 60.0, 'the monitor hearing states')

    def _gap_noticed(self) -> bool:
        """Publish a state after a long gap; return whether the monitor reports it."""
        self.publish(step=10 * NANO)
        figures = (values_of(status) for message in self.diagnostics for status in message.status)
        return any(int(found.get('gaps', '0')) for found in figures)

    def residuals_of(self, *publish) -> list[JointState]:
        """Publish pairs of states; return their residuals, of further ones if some are lost.

        Args:
            publish: Each publishes a pair, a period apart, and returns nothing.
        """
        again, tries = 0.0, list[list[int]]()  # stamps of the first state of each pair

        def found():
            nonlocal again
            if time.monotonic() > again:
                tries.append([one() or self.stamp - PERIOD_NS for one in publish])
                again = time.monotonic() + 3.0
            known = {stamp_ns(msg): msg for msg in self.residuals}
            return next(([known[x] for x in one] for one in tries if known.keys() >= {*one}), None)

        return self.peer.spin_until(found, 30.0, 'residuals')

    def steps(self, *rows) -> list[JointState]:
        """Publish pairs (q, v, v_next, effort), separate motions; return their residuals."""

        def publish(q, v, v_next, effort) -> None:
            self.publish(q, v, step=NANO)
            self.publish(q, v_next, effort=effort)

        return self.residuals_of(*(partial(publish, *row) for row in rows))

    def told(self, subject: str, after: int, done):
        """Return the next status of a subject of which something is true."""
        return self.peer.spin_until(
            lambda: next(
                (
                    status
                    for message in self.diagnostics[after:]
                    for status in message.status
                    if status.name.endswith(subject) and done(status)
                ),
                None,
            ),
            20.0, f'a status on {subject}',
        )  # fmt: skip


def start(processes, **parameters):
    given = {'robot': 'scara', 'diagnostics_period_s': 0.2, 'friction': False}
    return processes.start('monitor', given | parameters)


def values_of(status) -> dict[str, str]:
    return {pair.key: pair.value for pair in status.values}


def test_steps_of_a_recording_of_gazebo_are_split_with_their_stamps(processes, peer):
    """What is told of a whole one: ``test/estimation/test_model_monitor.py``."""
    start(processes)  # 9.81, the usual value
    parts = {name: peer.collect(JointState, f'monitor/{name}') for name in (*PARTS, 'effort')}
    feed, steps = Feed(peer), [*zip(*excerpt(), strict=True)][::50]
    peer.spin_until(lambda: feed.steps(steps[0]) and all(parts.values()), 30.0, 'every part')
    count = len(feed.diagnostics)
    residuals = feed.steps(*steps)
    # The quill and its load, 1.87 kg, times 0.01 m/s^2. A difference of velocities of 1 rad/s over
    # 1 ms leaves 1e-13 rad/s^2.
    assert_allclose([msg.effort for msg in residuals], [[0.0, 0.0, 0.0187, 0.0]] * 2, atol=1e-9)
    told = feed.told('formulations', count, lambda x: x.level == DiagnosticStatus.OK)
    assert 'newton_euler and pinocchio differ by' in told.message
    for (q, v, v_next, _), residual in zip(steps, residuals, strict=True):
        found = {}

        def complete(stamp=residual.header.stamp, found=found) -> bool:
            ours = ((x, msg) for x in parts for msg in parts[x] if msg.header.stamp == stamp)
            return found.update(ours) or found.keys() == parts.keys()

        peer.spin_until(complete, 20.0, 'every part')
        expected = ORACLE.inverse_dynamics(q, v, (v_next - v) / 1e-3)
        assert_allclose(found['effort'].effort, expected, atol=1e-9)
        together = np.sum([found[name].effort for name in PARTS], axis=0)
        assert_allclose(together, expected, atol=1e-9)
        assert_array_equal(found['effort'].position, q)


def test_what_the_model_does_not_know_is_told_and_can_be_given(processes, peer):
    """No efforts at first, then a load, at last a second publisher of the states."""
    start(processes, residual_warn=[0.5], residual_error=[5.0])
    place, rest = [0.2, 0.5, 0.1, 0.0], [0.0] * 4
    feed = Feed(peer, place=place)
    feed.steps((place, rest, rest, ()))
    feed.told('model', 0, lambda x: x.message == 'no efforts to compare with')
    load = np.array([0.0, 0.0, 2.0 * 9.81, 0.0])  # 2 kg below the quill, which points down
    loaded = ORACLE.gravity_forces(np.array(place)) - load
    feed.steps((place, rest, rest, loaded))
    error = feed.told('model', 0, lambda x: x.level == DiagnosticStatus.ERROR)
    assert "joint 'joint3': 19.6 N RMS are not explained, more than 0.5" in error.message
    assert peer.set('monitor', payload_mass=2.0).successful
    (residual,) = feed.steps((place, rest, rest, loaded))
    assert_allclose(residual.effort, 0.0, atol=1e-9)

    second = peer.publisher(JointState, 'joint_states', RELIABLE)
    peer.spin_until(second.get_subscription_count, 20.0, 'the second publisher')

    def named() -> bool:
        feed.publish(place, rest, effort=rest)
        second.publish(joint_state(feed.stamp + 1, rest, rest, rest))
        texts = (status.message for message in feed.diagnostics for status in message.status)
        return any('2 nodes publish /joint_states, and contradict' in text for text in texts)

    peer.spin_until(named, 30.0, 'the sentence on both')
    assert tuple(rest) not in {tuple(msg.position) for msg in feed.residuals}, 'not judged'


def test_commands_are_compared_by_the_stamps_of_the_reference(processes, peer):
    """It may come before or after the state that completes the step."""
    start(processes, gravity=[0.0, 0.0, -9.8], effort_source='reference')
    references = peer.publisher(JointState, 'controller/reference', RELIABLE)
    feed = Feed(peer)
    peer.spin_until(references.get_subscription_count, 30.0, 'subscription of the reference')
    rows = [*zip(*excerpt(), strict=True)][:2]

    def publish_step(k: int) -> None:
        q, v, v_next, effort = rows[k]
        feed.publish(q, v, step=NANO)
        reference = joint_state(feed.stamp, [], [], effort)
        steps = [lambda: references.publish(reference), lambda: feed.publish(q, v_next)]
        for publish in reversed(steps) if k else steps:
            publish()
            peer.spin_for(0.02)

    for k in range(2):
        (residual,) = feed.residuals_of(partial(publish_step, k))
        assert np.abs(residual.effort).max() < 1e-9


def test_a_continuous_joint_that_its_driver_wraps_is_filtered_as_one_that_turns_on(
    processes, peer, tmp_path
):
    """A lever that points backwards, where noise changes its reported turn with every state."""
    file = tmp_path / 'lever.urdf'
    file.write_text(described('lever', """
base: []
lever: [2, [0.3, 0, 0], [0.1, 0.1, 0.1]]
hinge: {of: [base, lever, continuous], axis: [0, 1, 0]}
"""))  # fmt: skip
    start(processes, robot=str(file), acceleration='filtered')
    feed = Feed(peer, ['hinge'], [np.pi])

    def told() -> bool:
        for sign in (1.0, -1.0) * 50:
            feed.publish([sign * (np.pi - 1e-4)], effort=[2.0 * 0.3 * 9.81])
        return len(feed.residuals) > 300

    peer.spin_until(told, 30.0, 'residuals')
    assert_allclose([msg.effort for msg in feed.residuals[-50:]], 0.0, atol=0.01)


def test_efforts_of_the_command_topic_are_compared_in_the_drivers_units(processes, peer):
    start(processes, driver_profile='template', effort_source='command')
    commands = peer.publisher(Float64MultiArray, 'effort_controller/commands', RELIABLE)
    joints = ['axis_1', 'axis_2', 'axis_3', 'axis_4']
    place, rest = [0.0, 30.0, 120.0, 0.0], [0.0] * 4
    feed = Feed(peer, joints, place)
    peer.spin_until(commands.get_subscription_count, 30.0, 'subscription of the commands')
    # 10 A on each axis: K = 0.05 N m/A * 100, * -1 on axis 2, 0.05 * 2000 rad/m on axis 3, whose
    # command is last.
    command = Float64MultiArray(data=[10.0, 10.0, 10.0, 0.5])
    expected = np.array([50.0, -50.0, 50.0, 50.0])

    def explained() -> bool:
        commands.publish(command)  # best effort, too: the first may be lost
        feed.publish(place, rest, step=NANO)  # a separate motion, not a continuation
        feed.publish(place, rest)
        return bool(feed.residuals) and np.isfinite(feed.residuals[-1].effort).all()

    peer.spin_until(explained, 30.0, 'a residual')
    found = feed.residuals[-1]
    assert_allclose(found.position, [0.0, np.deg2rad(-30.0), 0.1, 0.0], atol=1e-12)
    weight = ORACLE.gravity_forces(np.array(found.position))
    assert_allclose(np.array(found.effort) + weight, expected, atol=1e-9)
