# SPDX-License-Identifier: Apache-2.0
"""The scenes of the constraint-stabilization law over ROS 2, compared with an exact solution.

Oracle: the matrix exponential of f'' + G1 f' + G0 f = 0, computed here from the program's YAML.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from processes import PROJECT
from scipy.linalg import expm

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli import scene
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.messages import stamp_ns
from robot_dynamics_ros.recordings.bag.reader import BagReader

# Scenes of a minute may take several on a busy machine.
pytestmark = pytest.mark.timeout(900)
#: Simulated time of each scene, s: its error has decayed, its singularity is passed, it draws.
SECONDS = {
    'circle': 2.5, 'moving_plane': 2.0, 'near_singular': 3.2, 'four_bar': 1.5,
    'scara_press': 2.8, 'four_dof_board': 2.8,
}  # fmt: skip


@pytest.fixture(scope='module')
def scenes(tmp_path_factory) -> Path:
    """The output folder of all scenes, with shorter runs."""
    out = tmp_path_factory.mktemp('scenes')
    shorter = {name: replace(scene.SCENES[name], duration=SECONDS[name]) for name in scene.SCENES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene, 'SCENES', shorter)
        assert main(['scene', '--out', str(out)]) == 0
    return out


def test_an_arm_of_ones_own_is_held_on_the_plane_that_is_planned_for_it(tmp_path, monkeypatch):
    planned = scene.own_scene
    monkeypatch.setattr(scene, 'own_scene', lambda *x: replace(planned(*x), duration=1.5))
    file = str(PROJECT / 'urdf' / 'four_dof.urdf.xacro')
    assert main(['scene', file, 'limits_profile:=wide', '--out', str(tmp_path)]) == 0
    [rows] = [json.loads(x.read_text('utf-8')) for x in tmp_path.glob('plane/metrics.json')]
    [part] = rows['program']['relative']
    assert part <= 0.02  # of 5 mm off the plane, as of every scene
    assert len(recorded(tmp_path / 'plane' / 'bag', '/controller/constraint')) > 1400


def recorded(bag: Path, topic: str) -> list:
    with BagReader(bag) as reader:
        return [message for _, _, message in reader.messages(topic)]


def figures(scenes: Path, name: str) -> dict:
    return json.loads((scenes / name / 'metrics.json').read_text(encoding='utf-8'))


def test_all_scenes_keep_their_band(scenes):
    for name in scene.SCENES:
        assert (scenes / name / 'report.html').is_file()
        assert max(figures(scenes, name)['limits']['effort_share']) <= 1.0


@pytest.mark.parametrize(('name', 'desired'), [('scara_press', 20.0), ('four_dof_board', 8.0)])
def test_the_force_is_what_is_wanted_and_every_state_answered_with_the_wrench_before_it(
    scenes, name, desired
):
    wrenches, states, changes = (
        recorded(scenes / name / 'bag', topic)
        for topic in ('/controller/measured_wrench', '/joint_states', '/controller/changes')
    )
    assert len(wrenches) >= len(states) - 1  # one before each state
    forces = [message.wrench.force for message in wrenches]
    size = np.linalg.norm([[f.x, f.y, f.z] for f in forces], axis=1)[2300:]
    # The whole is the force across times (1 + 0.3^2)^(1/2) while it slides.
    assert np.sqrt(np.mean((size / np.hypot(1.0, 0.3) - desired) ** 2)) < 0.5
    taken = [json.loads(message.data) for message in changes]
    taken = [(x['tick'], x['stamp_ns']) for x in taken if x['kind'] == 'measured wrench']
    # The first one comes before the activation; a tick is of 1 ms, the first at 0.
    assert taken == [(tick, (tick - 1) * 1_000_000) for tick in range(2, len(states) + 1)]


def test_the_circle_decays_row_by_row_as_its_program_says(scenes):
    messages = recorded(scenes / 'circle' / 'bag', '/controller/constraint')
    file = PROJECT / 'config' / 'programs' / 'scara_circle.yaml'
    program = yaml.safe_load(file.read_text(encoding='utf-8'))
    frequency = [
        float(part['natural_frequency'])
        for part in program['constraints']
        for _ in part.get('axes', 'x')
    ]
    f = np.array([message.position for message in messages])
    rates = np.array(messages[0].velocity)
    times = 1e-9 * (np.array([stamp_ns(m) for m in messages]) - stamp_ns(messages[0]))
    for i, w in enumerate(frequency):
        A = np.array([[0.0, 1.0], [-w * w, -2.0 * w]])
        exact = np.array([(expm(A * t) @ [f[0, i], rates[i]])[0] for t in times[::25]])
        # 2 % of the initial error: sampling at 1 kHz and MuJoCo's softened Coulomb friction.
        assert np.abs(f[::25, i] - exact).max() < 0.02 * np.abs(f[0]).max()
        assert np.abs(f[-500:, i]).max() < 1e-4


def test_the_singular_pass_is_damped_and_stays_far_from_the_limits(scenes):
    found = figures(scenes, 'near_singular')
    assert found['program']['near_singularity'] > 0
    assert found['program']['sigma_min'] < 0.03
    assert max(found['limits']['effort_share']) < 0.5


def test_the_loop_of_the_four_bar_stays_closed(scenes):
    messages = recorded(scenes / 'four_bar' / 'bag', '/controller/constraint')
    rows = [i for i, name in enumerate(messages[0].name) if name.startswith('loop')]
    f = np.array([message.position for message in messages])
    assert len(rows) == 2
    assert np.abs(f[:, rows]).max() < 1e-5  # m; the plant's pin is hard but not rigid


def hold_up(process: subprocess.Popen, seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def test_nodes_that_a_busy_machine_holds_up_change_nothing(tmp_path):
    """A recorder for 0.3 s, some 1000 of the 2000 states kept; a simulator longer than 0.5 s."""
    short = replace(scene.SCENES['circle'], duration=3.0)
    with own_domain() as domain, SceneProcesses(tmp_path / 'logs', domain) as nodes:
        scene.lockstep_run(short).start(nodes, tmp_path / 'bag')
        deadline = time.monotonic() + 60.0
        while not re.search(r'progress (0\.[3-9]|[1-9])', nodes.output('recorder')):
            assert time.monotonic() < deadline
            nodes.check()
            time.sleep(0.02)
        hold_up(nodes._processes['recorder'], 0.3)
        hold_up(nodes._processes['simulator'], 0.8)
        nodes.wait_for_end('simulator', 200.0)
        nodes.end(['recorder', 'controller'])
        assert 'no fresh state' not in nodes.output('controller')
        lost = re.findall(
            r'(\S+): \d+ recorded, \d+ repeated, (\d+) lost', nodes.output('recorder')
        )
    assert len(lost) > 6
    assert {count for _, count in lost} == {'0'}
