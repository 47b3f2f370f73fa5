# SPDX-License-Identifier: Apache-2.0
"""The lockstep scene in Gazebo: a real launch with a stepped stand-in for Gazebo.

With the real Gazebo the same steps are those of test_gazebo_steps.py.
"""

import numpy as np
import pytest
from peer import RELIABLE
from sensor_msgs.msg import JointState

pytest.importorskip('launch_ros', reason='launch is not installed')

from stepped_stand_in import SteppedStandIn

from robot_dynamics_ros.messages import stamp_ns

STEP_NS = 1_000_000


@pytest.fixture
def world(tmp_path, launches) -> SteppedStandIn:
    return SteppedStandIn(tmp_path, launches)


@pytest.mark.slow
def test_each_step_is_made_under_the_command_that_answers_its_state(world, launches, peer):
    """Forces arrive late, some by 3 ms: a step that does not wait for them is detected."""
    answers = peer.collect(JointState, 'controller/reference', RELIABLE)
    launch = launches.launch('gazebo', gui=False, lockstep=True)
    # The motion begins at 500; on a busy machine this node receives them late.
    peer.spin_until(lambda: len(answers) > 600, 60.0, 'commands')
    peer.spin_until(lambda: 'real-time factor' in launch.output, 30.0, 'its speed')
    output = launch.interrupt()
    assert 'lockstep: every command makes one step' in output
    assert 'set to zero' in output.rpartition('real-time factor')[2], 'its own time is not counted'
    assert not world.command.asked('pause: false'), 'time never runs by itself'
    efforts = {stamp_ns(answer): answer.effort for answer in answers}
    steps = [(stamp, forces) for stamp, forces in world.steps() if stamp in efforts]
    assert len(steps) > 250
    assert set(np.diff([stamp for stamp, _ in steps])) == {STEP_NS}, 'every state was answered'
    for stamp, forces in steps:
        np.testing.assert_array_equal(forces, efforts[stamp])
    assert np.ptp([forces for _, forces in steps], axis=0).max() > 1e-3, 'commands differ'


@pytest.mark.slow
def test_no_step_is_made_before_a_motion_that_comes_late(world, launches):
    """Its start would depend on how busy the machine was: it is half a second from now."""
    sender = launches.prefix / 'lib' / 'robot_dynamics_ros' / 'trajectory'
    text = sender.read_text(encoding='utf-8')
    late = text.replace('from robot', 'import time; time.sleep(8.0)\nfrom robot')
    sender.write_text(late, encoding='utf-8')
    launch = launches.launch('gazebo', gui=False, lockstep=True)
    launch.says('every command makes one step', 60.0)
    launch.says('from t = 0.500000 s', 30.0)  # its sender tells it after the controller
    launch.interrupt()


def test_lockstep_without_gazebos_bindings_is_refused_in_one_line(world, launches, tmp_path):
    (tmp_path / 'bindings' / 'gz' / 'transport.py').unlink()
    launch = launches.launch('gazebo', gui=False, lockstep=True)
    assert launch.wait(40.0) == 1
    (line,) = [line for line in launch.output.splitlines() if 'Caught' in line]
    assert 'gz.transport' in line
    assert 'process started' not in launch.output
