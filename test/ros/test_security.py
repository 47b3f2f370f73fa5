# SPDX-License-Identifier: Apache-2.0
"""The policy of a launch file lists exactly what its nodes use in a run."""

import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from processes import ROOT, write_script

pytest.importorskip('launch_ros', reason='launch is not installed')

from gz_stand_in import Gazebo
from launches import IDLE, PACKAGE

from robot_dynamics_ros.ros.security import PARTS, Uses, node_uses, policy

#: Arguments with which a launch file starts all of ours, its nodes, and how many motions are sent
#: then. Gazebo, its bridge and ``ros2 bag play`` are stand-ins without interfaces.
SCENES = yaml.safe_load("""
simulation:
- {record: true, bag: bag, monitor: true, mode: lockstep}
- [simulator, controller, trajectory, recorder, monitor]
- 1
two_robots: [{record: true, bag: bag}, [simulator, controller, trajectory, recorder], 2]
hardware:
- {stage: full, emulator: true, motion: true, record: true, bag: bag, monitor: true}
- [driver_emulator, controller, trajectory, recorder, monitor]
- 1
gazebo:
- {gui: false, record: true, bag: bag, monitor: true}
- [gazebo_robot, controller, trajectory, recorder, monitor]
- 0
four_bar: [{gui: false, record: true, bag: bag}, [gazebo_robot, controller, recorder], 0]
replay: [{robot: scara, bag: nothing}, [monitor], 0]
""")

#: Interfaces that the controller has only if control_msgs is installed.
_OF_CONTROL_MSGS = re.compile('/follow_joint_trajectory/|/(controller_state|speed_scaling_input)$')
_CONTROL_MSGS = find_spec('control_msgs') is not None
#: It would end when all is sent, possibly before a busy machine has listed its interfaces.
_STAYING = """
import sys
from robot_dynamics_ros.ros.executables import trajectory
sys.argv += ['--ros-args', '-p', 'exit_when_done:=false']
trajectory()
"""


@pytest.mark.parametrize('scene', SCENES)
def test_a_policy_names_exactly_what_a_run_uses(tmp_path, launches, peer, scene):
    arguments, nodes, sent = SCENES[scene]
    world = {'four_bar': 'four_bar'}.get(scene, 'arm')
    launches.env |= Gazebo(tmp_path, f'/world/{world}/create /world/{world}/control').env
    launches.add_bridge()
    launches.add_player(IDLE)
    if scene == 'hardware':  # in real time: a motion is refused if states were missing before it
        profile = launches.patient_profile('generic_ros2_control')
        arguments = arguments | {'driver_profile': profile}
    write_script(launches.prefix / 'lib' / PACKAGE / 'trajectory', _STAYING)
    file = ROOT / 'config' / 'security' / f'{scene}.policy.xml'
    launch = launches.launch(scene, **arguments)
    seen: Uses = {}

    def found() -> Uses:
        """Return the interfaces of every node so far."""
        for key, use in node_uses(peer.node).items():
            seen.setdefault(key, set()).update(use)
        return seen

    def are_ready() -> bool:
        """Return whether all nodes exist, controllers are configured, and motions are sent."""
        configured = all(
            ('publish', f'{ns.rstrip("/")}/controller/parameters') in use
            for (name, ns), use in found().items()
            if name == 'controller'
        )
        there = {name for name, _ in seen} == {*nodes}
        return there and configured and launch.output.count('sent circle') >= sent

    peer.spin_until(are_ready, 60.0, f'{nodes} to be ready, and motions to be sent')
    if os.environ.get('WRITE_POLICIES'):
        peer.spin_for(3.0)
        file.write_text(policy(found()), encoding='utf-8')
    allowed = read_policy(file)

    def used() -> Uses:
        """Return what is used; called services, which are looked up when needed, as allowed."""
        called = {key: {x for x in those if x[0] == 'request'} for key, those in allowed.items()}
        return {key: those | called.get(key, set()) for key, those in found().items()}

    with suppress(AssertionError):  # differences are given below
        peer.spin_until(lambda: used() == allowed, 60.0, file.name)
    assert used() == allowed
    launch.interrupt()


def read_policy(file: Path) -> Uses:
    """Return the permissions of the nodes of a policy, by name and namespace."""
    return {
        (profile.get('node', ''), profile.get('ns', '')): {
            (use, one.text or '')
            for use, kind in PARTS.items()
            for one in profile.iterfind(f"{kind}s[@{use}='ALLOW']/{kind}")
            if _CONTROL_MSGS or not _OF_CONTROL_MSGS.search(one.text or '')
        }
        for profile in ElementTree.parse(file).getroot().iter('profile')
    }


def test_every_launch_file_has_a_policy():
    files = {
        name: {path.name.partition('.')[0] for path in (ROOT / name).glob(pattern)}
        for name, pattern in (('launch', '*.launch.py'), ('config/security', '*.policy.xml'))
    }
    assert files['launch'] == files['config/security'] == set(SCENES)
