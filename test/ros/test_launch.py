# SPDX-License-Identifier: Apache-2.0
"""Every launch file without Gazebo, really started; those with Gazebo: test_gazebo.py.

Oracle of the last command: Pinocchio's gravity forces, built from the URDF text.
"""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from pathlib import Path

import numpy as np
import pinocchio
import pytest
import viser
import yaml
from bags import state, text, write
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.srv import GetState
from peer import RELIABLE
from processes import PATIENCE, PROJECT, free_domain
from recorded_bags import NOMINAL
from samples import sample
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from websockets.sync.client import connect

pytest.importorskip('launch_ros', reason='launch is not installed')

from gz_stand_in import Gazebo
from launches import Launches, make_package, make_player, make_prefix
from peer import Peer

ACTIVE = 3


@pytest.fixture(scope='module')
def prefix(tmp_path_factory) -> Path:
    return make_prefix(tmp_path_factory.mktemp('prefix'), bridge=False)


@pytest.fixture
def launches(tmp_path, prefix):
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as started:
        yield started


@pytest.fixture
def peer(launches):
    with Peer(launches) as node:
        yield node


def wait_active(peer: Peer, name: str) -> None:
    def active() -> bool:
        answer = peer.call(GetState, f'{name}/get_state', GetState.Request(), 40.0)
        return answer.current_state.id == ACTIVE

    peer.spin_until(active, 40.0, f'{name} being active')


def started(launch) -> dict[str, int]:
    """Return the process ids started by a launch, by executable."""
    pairs = re.findall(r'\[(\w+)-\d+\]: process started with pid \[(\d+)\]', launch.output)
    return {name: int(pid) for name, pid in pairs}


def nodes_there(peer: Peer, *names: str) -> None:
    def there() -> bool:
        found = {
            f'{space.rstrip("/")}/{n}' for n, space in peer.node.get_node_names_and_namespaces()
        }
        return set(names) <= found

    peer.spin_until(there, 30.0, f'nodes {", ".join(names)}')


# Arguments and refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('name', 'arguments', 'reason'),
    [
        ('simulation', {'robot': 'nobody'}, "['scara', 'four_dof']"),
        ('simulation', {'law': 'magic'}, 'computed_torque'),
        ('simulation', {'rviz': True}, 'sudo apt install ros-'),
        ('gazebo', {}, 'sudo apt install ros-'),
        ('four_bar', {}, 'sudo apt install ros-'),
        ('replay', {}, 'bag: none is given; write bag:=FOLDER'),
        ('hardware', {'rviz': True}, 'sudo apt install ros-'),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(launches, name, arguments, reason):
    """Where ros_gz_bridge or RViz are installed, those refusals cannot be seen."""
    package = {'rviz': 'robot_state_publisher'}.get(next(iter(arguments), ''), '')
    package = package or ('ros_gz_bridge' if name in ('gazebo', 'four_bar') else '')
    if package and _installed(package):
        pytest.skip(f'{package} is installed')
    launch = launches.launch(name, **arguments)
    assert launch.wait(40.0) == 1, launch.output
    (line,) = [line for line in launch.output.splitlines() if 'Caught' in line]
    assert reason in line
    assert 'Traceback' not in launch.output
    assert 'process started' not in launch.output


def _installed(package: str) -> bool:
    from ament_index_python.packages import get_packages_with_prefixes

    return package in get_packages_with_prefixes()


# Scenes ------------------------------------------------------------------------------------------


@pytest.fixture
def listening(peer):
    """Return lists of the states and commands of one arm, by namespace."""

    def listen(space: str = ''):
        states = peer.collect(JointState, f'{space}/joint_states', RELIABLE)
        commands = peer.collect(Float64MultiArray, f'{space}/effort_controller/commands', RELIABLE)
        return states, commands

    return listen


def gravity(q) -> np.ndarray:
    model = pinocchio.buildModelFromXML(sample('scara').xml)
    return pinocchio.computeGeneralizedGravity(model, model.createData(), np.asarray(q, float))


def ends_with_gravity(peer, states, commands) -> None:
    """Wait until the last command holds the arm in place: all messages have arrived.

    The launch has ended by then, with 1 if something was killed.
    """

    def held() -> bool:
        return np.allclose(commands[-1].data, gravity(states[-1].position), rtol=0, atol=1e-9)

    end = time.monotonic() + PATIENCE * 20.0
    while not held() and time.monotonic() < end:
        peer.spin_for(0.1)
    assert held(), 'no last command against gravity'


def test_the_simulation_tracks_records_and_ends_with_a_safe_command(launches, peer, listening):
    """In lockstep, in which nothing is lost on a machine too slow for real time."""
    states, commands = listening()
    launch = launches.launch('simulation', record=True, bag='bag', mode='lockstep')
    wait_active(peer, 'controller')
    nodes_there(peer, '/simulator', '/controller', '/recorder')
    launch.says('sent circle', 40.0)
    peer.spin_until(
        lambda: states and states[-1].header.stamp.sec >= 2, 40.0, 'two simulated seconds'
    )
    peer.call(SetBool, 'simulator/pause', SetBool.Request(data=True))
    seen = -1
    while len(commands) > seen:  # the controller does not wait for this test, if that is behind
        seen = len(commands)
        peer.spin_for(4.0)  # the middleware checks for missed messages every 3 s
    launch.interrupt()
    # The arm moves at 0.45 m/s; between the last state that both have seen and the one that the
    # controller answered lie some ms, in which gravity of the quill does not change at all.
    ends_with_gravity(peer, states, commands)
    expected = gravity(states[-1].position)
    moving = np.array([msg.data for msg in commands])
    assert np.abs(moving - expected).max() > 0.1, 'the commands before were no gravity'
    assert launch.output.count('process has finished cleanly') == 4
    from robot_dynamics_ros.recordings.reading import read_recording

    recording = read_recording(launch.log.parent / 'bag')
    assert recording.time[-1] >= 2.0
    commanded = np.isfinite(recording.reference_position).all(axis=1) & (recording.time > 1.0)
    error = (recording.reference_position - recording.position)[commanded]
    # A wrong model or law costs far more (PD + gravity: 60 mrad here).
    assert np.sqrt((error**2).mean(axis=0)).max() < 5e-3


def test_a_program_needs_no_motion_and_lockstep_no_clock(launches, peer, listening):
    states, _ = listening()
    launch = launches.launch(
        'simulation', law='constraint_stabilization', program='scara_circle', mode='lockstep'
    )
    wait_active(peer, 'controller')
    peer.spin_until(lambda: states and states[-1].header.stamp.sec >= 1, 60.0, 'a second')
    output = launch.interrupt()
    assert 'sent ' not in output
    assert 'constraint_stabilization' in output


def test_the_scene_ends_with_a_node_that_dies(launches, peer):
    launch = launches.launch('simulation')
    wait_active(peer, 'controller')
    os.kill(started(launch)['controller'], signal.SIGKILL)
    assert launch.wait(30.0) == 1, 'visible to a script'
    assert 'the scene ends: controller-2 ended with -9' in launch.output
    assert 'ERROR' in launch.output


@pytest.mark.parametrize(
    ('law', 'reason'),
    [
        ({'program': 'four_dof_moving_plane'}, "is written for robot 'four_dof', this is 'scara'"),
        ({'law': 'computed_torque', 'params_file': '{folder}/wrong.yaml'}, 'natural_frequency'),
    ],
)
def test_a_scene_whose_parameters_a_node_refuses_ends_with_its_reason(
    launches, tmp_path, law, reason
):
    wrong = yaml.safe_load((PROJECT / 'config' / 'scara.yaml').read_text('utf-8'))
    wrong['/**/controller']['ros__parameters']['natural_frequency'] = [-1.0]
    (tmp_path / 'wrong.yaml').write_text(yaml.safe_dump(wrong), encoding='utf-8')
    given = {key: value.format(folder=tmp_path) for key, value in law.items()}
    launch = launches.launch('simulation', **{'law': 'constraint_stabilization', **given})
    assert launch.wait(40.0) == 1, launch.output
    assert reason in launch.output
    assert 'the scene ends: controller-2 ended with 2' in launch.output


def test_an_arm_in_motion_survives_the_loss_of_what_only_looks_on(launches, peer, listening):
    states, commands = listening()
    launch = launches.launch('simulation', monitor=True, record=True, bag='bag')
    launch.says('sent circle', 60.0)
    os.kill(started(launch)['monitor'], signal.SIGKILL)
    launch.says('lost: monitor-5 ended with -9', 20.0)
    seen = len(commands)
    both = 'states, possibly delayed on a busy machine, and commands'
    peer.spin_until(lambda: states and len(commands) > seen + 100, 20.0, both)
    os.kill(started(launch)['recorder'], signal.SIGKILL)
    assert launch.wait(30.0) == 1, 'what was to be recorded is not'
    ends_with_gravity(peer, states, commands)


def test_when_the_bridge_is_killed_no_force_is_left_in_gazebo(tmp_path):
    """Gazebo and its bridge are stand-ins: only Gazebo's calls are checked."""
    prefix = tmp_path / 'prefix'
    make_prefix(prefix, bridge=False)
    make_package(prefix, 'ros_gz_bridge', {'parameter_bridge': 'import time\ntime.sleep(1000)'})
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        gazebo = Gazebo(tmp_path)
        launches.env |= {'PATH': f'{tmp_path}{os.pathsep}{launches.env["PATH"]}'}
        launch = launches.launch('gazebo', gui=False, start_world=False, motion=False)
        launch.says('is in the world', 40.0)
        assert not gazebo.asked('cmd_force')
        os.kill(started(launch)['parameter_bridge'], signal.SIGKILL)
        assert launch.wait(40.0) == 1, launch.output
        assert 'ended with -9' in launch.output
        forces = [f'/model/scara/joint/joint{k}/cmd_force' for k in range(1, 5)]
        sent = [line for line in gazebo.asked('cmd_force') if ' -p ' in line]
        zero = '-m gz.msgs.Double -p data: 0.0'
        assert set(sent) == {f'topic -t {force} {zero}' for force in forces}
        # Gazebo's answer is awaited on a topic of its own.
        assert all(gazebo.asked(f'-e -n 1 -t {force}/zero') for force in forces)


@pytest.fixture(scope='module')
def long_bag(tmp_path_factory) -> Path:
    """Return a bag of the SCARA with a motion that outlasts the test."""
    time = np.arange(0.0, 600.0, 0.1)
    q = np.array([0.3, 0.5, 0.05, 0.0]) + 0.1 * np.sin(time)[:, np.newaxis]
    columns = (q, 0.1 * np.cos(time)[:, np.newaxis] + 0.0 * q, 0.0 * q)
    path = tmp_path_factory.mktemp('long') / 'bag'
    messages = [text(0, sample('scara').xml)]
    messages += [state(round(1e9 * t), sample('scara').tree.joint_names, *row)
                 for t, *row in zip(time, *columns, strict=True)]  # fmt: skip
    return write(path, messages)


@pytest.mark.parametrize(
    ('name', 'arguments', 'topics'),
    [
        ('simulation', {}, ['/joint_states']),
        ('two_robots', {}, ['/left/joint_states', '/right/joint_states']),
        ('hardware', {'emulator': True}, ['/monitor/effort']),
        ('gazebo', {'gui': False, 'start_world': False}, ['/joint_states']),
        ('four_bar', {'gui': False}, ['/joint_states']),
        ('replay', {'bag': '{bag}'}, ['/joint_states']),
    ],
)
def test_every_scene_can_be_seen(tmp_path, long_bag, name, arguments, topics):
    """Gazebo, its bridge and the bag player are stand-ins; the viewer is real."""
    prefix = make_prefix(tmp_path / 'prefix', bridge=False)
    make_package(prefix, 'ros_gz_bridge', {'parameter_bridge': 'import time\ntime.sleep(1000)'})
    make_player(prefix, tmp_path)
    Gazebo(tmp_path, model=name if name == 'four_bar' else 'scara')
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        launches.env['PATH'] = f'{tmp_path}{os.pathsep}{launches.env["PATH"]}'
        given = {k: long_bag if x == '{bag}' else x for k, x in arguments.items()}
        launch = launches.launch(name, view=True, **given)
        address = re.search(r'viewer: open (http://\S+)', launch.says('viewer: open', 60.0))[1]
        with urllib.request.urlopen(address) as page:
            assert page.status == 200
        opened = connect(
            address.replace('http', 'ws'), subprotocols=[f'viser-v{viser.__version__}']
        )
        with opened, Peer(launches, 'onlooker') as onlooker:
            for topic in topics:
                onlooker.spin_until(lambda t=topic: 'view' in readers(onlooker, t), 40.0, topic)


def readers(peer: Peer, topic: str) -> set[str]:
    """Return the names of the nodes that subscribe to a topic."""
    return {info.node_name for info in peer.node.get_subscriptions_info_by_topic(topic)}


def test_a_bag_that_exists_is_refused_before_anything_is_started(launches, tmp_path):
    (tmp_path / 'bag').mkdir()
    launch = launches.launch('simulation', record=True, bag='bag')
    assert launch.wait(40.0) == 1
    assert "bag 'bag': exists already" in launch.output
    assert 'process started' not in launch.output


def test_two_robots_have_their_own_topics_joints_and_time(launches, peer, listening):
    received = {side: listening(f'/{side}') for side in ('left', 'right')}
    launch = launches.launch('two_robots')
    for side, (states, commands) in received.items():
        wait_active(peer, f'/{side}/controller')
        peer.spin_until(
            lambda s=states: s and s[-1].header.stamp.sec >= 1, 60.0, f'{side} to move'
        )
        assert list(states[-1].name) == [f'{side}_joint{i}' for i in range(1, 5)]
        peer.spin_until(lambda c=commands: c, 20.0, f'commands of {side}')
    launch.says('sent circle', 60.0, times=2)
    topics = dict(peer.node.get_topic_names_and_types())
    shared = {name for name in topics if not name.startswith(('/left/', '/right/'))}
    assert shared <= {'/diagnostics', '/parameter_events', '/rosout', '/clock'}
    assert not peer.node.get_publishers_info_by_topic('/clock'), 'each simulation has its own'
    launch.interrupt()
    assert launch.output.count('process has finished cleanly') == 6


# A real arm, replaced by the emulated driver -----------------------------------------------------


def patient(tmp_path, name: str, **changes) -> Path:
    """Return the path of a shipped driver profile with a longer timeout for slow machines."""
    data = yaml.safe_load((PROJECT / 'config' / 'drivers' / f'{name}.yaml').read_text('utf-8'))
    data['state']['timeout_s'] = 5.0
    data |= changes
    path = tmp_path / f'{name}.yaml'
    path.write_text(yaml.safe_dump(data), encoding='utf-8')
    return path


def test_in_the_monitor_stage_an_arm_is_watched_and_nothing_commands(launches, peer):
    diagnostics = peer.collect(DiagnosticArray, '/diagnostics')
    launch = launches.launch('hardware', emulator=True, log_level='debug')
    nodes_there(peer, '/driver_emulator', '/monitor')

    def verdict() -> list[str]:
        return [
            status.message
            for array in diagnostics
            for status in array.status
            if status.name == 'monitor: model' and status.level == DiagnosticStatus.OK
        ]

    peer.spin_until(verdict, 60.0, 'the monitor to understand the arm')
    assert not peer.node.get_publishers_info_by_topic('/effort_controller/commands')
    launch.interrupt()
    assert 'stage monitor: nothing is commanded' in launch.output
    assert 'commands take over' not in launch.output
    assert launch.output.count('process has finished cleanly') == 2


@pytest.mark.parametrize(
    ('stage', 'reason'),
    [
        ('gravity', 'stage gravity: gravity_compensation at 30 % of the effort limits'),
        ('slow', 'stage slow: computed_torque at 50 % of the effort limits'),
    ],
)
def test_a_stage_takes_over_from_the_driver_and_ends_with_a_safe_command(
    launches, peer, listening, tmp_path, stage, reason
):
    states, commands = listening()
    launch = launches.launch(
        'hardware', stage=stage, emulator=True, motion=True,
        driver_profile=patient(tmp_path, 'generic_ros2_control'),
    )  # fmt: skip
    wait_active(peer, 'controller')
    launch.says('commands take over from the own controller', 40.0)
    if stage == 'slow':
        # The circle begins where the arm is held, but for an encoder step: 2 s at a quarter.
        launch.says('after an approach of 8.000000 s', 60.0)
    else:
        assert '/trajectory' not in [f'/{name}' for name in peer.node.get_node_names()]
    peer.spin_until(lambda: states and len(commands) > 500, 40.0, 'states and commands')
    launch.interrupt()
    ends_with_gravity(peer, states, commands)
    assert reason in launch.output
    assert launch.output.count('process has finished cleanly') == (3 if stage == 'slow' else 2)


def test_an_arm_in_a_namespace_is_recorded_under_the_names_of_its_driver(launches, peer, tmp_path):
    axes = [{'joint': f'joint{i}', 'driver_name': f'axis_{i}'} for i in range(1, 5)]
    launch = launches.launch(
        'hardware', stage='full', emulator=True, namespace='left', record=True, bag='bag',
        monitor=True, motion=True, driver_profile=patient(tmp_path, 'ur', joints=axes),
    )  # fmt: skip
    wait_active(peer, '/left/controller')
    launch.says('sent circle', 60.0)  # from where the controller holds, in the model's names
    nodes_there(peer, '/left/driver_emulator', '/left/recorder', '/left/monitor')
    commands = peer.collect(Float64MultiArray, '/left/forward_effort_controller/commands')
    peer.spin_until(lambda: len(commands) > 300, 60.0, 'commands')
    launch.interrupt()
    from robot_dynamics_ros.recordings.bag.reader import BagReader

    with BagReader(launch.log.parent / 'bag') as bag:
        assert {
            '/left/joint_states', '/left/forward_effort_controller/commands',
            '/left/controller/reference', '/left/robot_description',
        } <= set(bag.topics)  # fmt: skip


@pytest.mark.parametrize(
    ('gravity', 'verdict'), [('-9.8', 'the model explains the efforts'), ('-9.0', 'gravity')]
)
def test_a_replayed_bag_is_compared_with_the_model_in_it(tmp_path, gravity, verdict):
    """The recording is of Gazebo at its own gravity, 9.8 m/s^2; the bag's URDF is the nominal."""
    prefix, commands = tmp_path / 'prefix', tmp_path / 'commands'
    make_prefix(prefix, bridge=False)
    commands.mkdir()
    make_player(prefix, commands)
    with free_domain() as domain, Launches(tmp_path, domain, prefix) as launches:
        launches.env['PATH'] = f'{commands}{os.pathsep}{launches.env["PATH"]}'
        with Peer(launches, 'listener') as listener:
            diagnostics = listener.collect(DiagnosticArray, '/diagnostics')
            launch = launches.launch(
                'replay', bag=NOMINAL, effort_source='command', gravity=gravity
            )

            def verdicts() -> list[str]:
                return [
                    status.message
                    for array in diagnostics
                    for status in array.status
                    if status.name == 'monitor: model'
                ]

            listener.spin_until(
                lambda: any(verdict in text for text in verdicts()), 40.0, f'{verdict}'
            )
        launch.wait(40.0)
        assert 'the scene ends: player' in launch.output
