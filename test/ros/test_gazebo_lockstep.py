# SPDX-License-Identifier: Apache-2.0
"""The lockstep scene in Gazebo: a real launch with a stepped stand-in for Gazebo.

With the real Gazebo the same steps are those of test_gazebo_steps.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from peer import RELIABLE
from processes import free_domain
from sensor_msgs.msg import JointState

pytest.importorskip('launch_ros', reason='launch is not installed')

from launches import Launches, make_prefix
from peer import Peer
from stepped_stand_in import SteppedStandIn

STEP_NS = 1_000_000


@pytest.mark.slow
def test_each_step_is_made_under_the_command_that_answers_its_state(tmp_path):
    """Forces arrive late, some by 3 ms: a step that does not wait for them is detected."""
    prefix = tmp_path / 'prefix'
    make_prefix(prefix, bridge=False)
    world = SteppedStandIn(tmp_path, prefix)
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        world.join(launches)
        with Peer(launches) as peer:
            answers = peer.collect(JointState, 'controller/reference', RELIABLE)
            launch = launches.launch('gazebo', gui=False, lockstep=True)
            # The motion begins at 500; on a busy machine this node receives them late.
            peer.spin_until(lambda: len(answers) > 600, 60.0, 'commands')
            peer.spin_until(lambda: 'real-time factor' in launch.output, 30.0, 'its speed')
        output = launch.interrupt()
    assert 'lockstep: every command makes one step' in output
    assert 'set to zero' in output.rpartition('real-time factor')[2], 'its own time is not counted'
    assert not world.command.asked('pause: false'), 'time never runs by itself'
    efforts = {
        1_000_000_000 * x.header.stamp.sec + x.header.stamp.nanosec: x.effort for x in answers
    }
    steps = [(stamp, forces) for stamp, forces in world.steps() if stamp in efforts]
    stamps = np.array([stamp for stamp, _ in steps])
    assert len(steps) > 250
    assert set(np.diff(stamps)) == {STEP_NS}, 'every state was answered'
    for stamp, forces in steps:
        np.testing.assert_array_equal(forces, efforts[stamp])
    assert np.ptp([forces for _, forces in steps], axis=0).max() > 1e-3, 'commands differ'


@pytest.mark.slow
def test_no_step_is_made_before_a_motion_that_comes_late(tmp_path):
    """Its start would depend on how busy the machine was: it is half a second from now."""
    prefix = tmp_path / 'prefix'
    make_prefix(prefix, bridge=False)
    sender = prefix / 'lib' / 'robot_dynamics_ros' / 'trajectory'
    text = sender.read_text(encoding='utf-8')
    late = text.replace('from robot', 'import time; time.sleep(8.0)\nfrom robot')
    sender.write_text(late, encoding='utf-8')
    world = SteppedStandIn(tmp_path, prefix)
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        world.join(launches)
        launch = launches.launch('gazebo', gui=False, lockstep=True)
        launch.says('every command makes one step', 60.0)
        assert 'from t = 0.500000 s' in launch.output
        launch.interrupt()


def test_lockstep_without_gazebos_bindings_is_refused_in_one_line(tmp_path):
    prefix = tmp_path / 'prefix'
    make_prefix(prefix, bridge=False)
    world = SteppedStandIn(tmp_path, prefix)
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        world.join(launches)
        (tmp_path / 'bindings' / 'gz' / 'transport.py').unlink()
        launch = launches.launch('gazebo', gui=False, lockstep=True)
        assert launch.wait(40.0) == 1
        (line,) = [line for line in launch.output.splitlines() if 'Caught' in line]
        assert 'gz.transport' in line
        assert 'process started' not in launch.output


@pytest.mark.slow
def test_what_is_not_a_number_makes_no_step_and_what_is_beyond_a_limit_is_cut(tmp_path):
    from robot_dynamics_ros.description.shipped import shipped_robot
    from robot_dynamics_ros.model import load_robot

    limits = load_robot(shipped_robot('scara')).effort_limit
    prefix = tmp_path / 'prefix'
    make_prefix(prefix, bridge=False)
    world = SteppedStandIn(tmp_path, prefix)
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        world.join(launches)
        with Peer(launches) as peer:
            launch = launches.launch('gazebo', gui=False, lockstep=True, motion=False)
            peer.spin_until(lambda: len(world.steps()) > 20, 60.0, 'steps')
            commands = Commands(peer)

            def refused() -> bool:
                commands.send([np.nan] * 4)
                return 'is not finite' in launch.output

            def cut() -> bool:
                commands.send([1e9, -1e9, 1e9, -1e9])
                return bool((np.abs([f for _, f in world.steps()]) == limits).any())

            peer.spin_until(refused, 20.0, 'the refusal')
            peer.spin_until(cut, 20.0, 'the limit')
        launch.interrupt()
    assert np.isfinite([forces for _, forces in world.steps()]).all()
    assert (np.abs([forces for _, forces in world.steps()]) <= limits).all()


class Commands:
    """A second publisher of commands."""

    def __init__(self, peer) -> None:
        from std_msgs.msg import Float64

        self._kind = Float64
        names = [f'joint{i}/cmd_force' for i in range(1, 5)]
        self._publishers = [peer.node.create_publisher(Float64, name, 1) for name in names]

    def send(self, efforts) -> None:
        for publisher, effort in zip(self._publishers, efforts, strict=True):
            publisher.publish(self._kind(data=effort))
