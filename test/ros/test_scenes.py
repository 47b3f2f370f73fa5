# SPDX-License-Identifier: Apache-2.0
"""The scenes of the constraint-stabilization law: an arm of one's own, one pressing, one held up
over ROS 2; the others, whose nodes send nothing else, in one process.

Oracle: the matrix exponential of f'' + G1 f' + G0 f = 0, computed here from the program's YAML.
"""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
import yaml
from processes import ROOT, STOPPABLE
from scipy.linalg import expm

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.cli import scene
from robot_dynamics_ros.cli.processes import SceneProcesses, own_domain
from robot_dynamics_ros.control.session import ControllerSession
from robot_dynamics_ros.messages import stamp_ns, wrench_of
from robot_dynamics_ros.model.robot_parameters import robot_from_parameters
from robot_dynamics_ros.parameters import defaults
from robot_dynamics_ros.recordings.bag.reader import BagReader
from robot_dynamics_ros.recordings.lockstep import SessionOnPlant
from robot_dynamics_ros.ros.node_parameters import SIMULATOR
from robot_dynamics_ros.simulation.mujoco_plant import plant_from_parameters

# Scenes of a minute may take several on a busy machine.
pytestmark = pytest.mark.timeout(900)
#: Of the initial error: sampling at 1 kHz and MuJoCo's softened Coulomb friction.
SHARE = 0.02


def recorded(bag: Path, topic: str) -> list[Any]:
    with BagReader(bag) as reader:
        return [message for _, _, message in reader.messages(topic)]


def play(name: str, seconds: float) -> list[np.ndarray]:
    """Run a scene in one process, with the parameters of its nodes.

    Returns:
        By state: values of the program, m or rad; its smallest singular value, every 10 ms; the
        largest effort of a joint / its limit; the force on the board, N.
    """
    nodes, rows = scene.lockstep_run(scene.SCENES[name]), []
    file = yaml.safe_load((ROOT / 'config' / f'{nodes.robot}.yaml').read_text('utf-8'))
    control, simulate = (file[f'/**/{x}']['ros__parameters'] for x in ('controller', 'simulator'))
    simulate = {**defaults(SIMULATOR), **simulate, **nodes.simulator}
    tree = robot_from_parameters(simulate)
    plant = plant_from_parameters(tree, simulate)
    arm = SessionOnPlant(ControllerSession(tree, {**control, **nodes.controller}), plant)
    arm.activate()
    law, sensor = arm.session.loop.law, nodes.controller['sensor_frame']
    for k, _ in enumerate(arm.run(round(seconds * 1e3))):
        assert arm.answered
        if k % 10 == 0:
            sigma = law.constraints().sigma_min
        share = np.abs(arm.effort / tree.effort_limit).max()
        force = np.linalg.norm(plant.board_force)
        rows.append((law.f.copy(), sigma, share, force))
        if sensor:
            arm.session.measure_wrench(sensor, plant.board_wrench().tolist())
    return [np.array(column) for column in zip(*rows, strict=True)]


def deviation(name: str, f: np.ndarray) -> float:
    """Return how far a scene is from its design, as a share of its largest initial value."""
    file = ROOT / 'config' / 'programs' / f'{scene.SCENES[name].program}.yaml'
    parts, away = yaml.safe_load(file.read_text(encoding='utf-8'))['constraints'], []
    for x in parts:
        w = float(x['natural_frequency'])
        A = np.array([[0.0, 1.0], [-w * w, -2.0 * w]])
        share = np.array([expm(1e-3 * k * A)[0, 0] for k in range(0, len(f), 25)])
        for _ in x.get('axes', 'x'):
            rows = f[::25, len(away)]
            away.append(np.abs(rows - share * rows[0]).max())
    return max(away) / np.abs(f[0]).max()


def force_error(force: np.ndarray, desired: float) -> float:
    """Return the RMS error of the force on a board once it is drawn on, N."""
    # The whole is the force across times (1 + 0.3^2)^(1/2) while it slides.
    return np.sqrt(np.mean((force[2300:] / np.hypot(1.0, 0.3) - desired) ** 2))


@pytest.mark.slow
@tables.rows(
    'name seconds most',
    """
moving_plane, 2.0, 1.0
near_singular, 3.2, 0.5
four_bar, 1.5, 1.0
four_dof_board, 2.8, 1.0
""",
)
def test_scenes_keep_their_design_and_their_limits(name, seconds, most):
    f, sigma, share, force = play(name, seconds)
    assert share.max() <= most
    assert (sigma.min() < 0.03) == (name == 'near_singular')
    if scene.SCENES[name].relative is not None:
        assert deviation(name, f) < SHARE
    if name == 'four_bar':
        assert np.abs(f[:, :2]).max() < 1e-5  # m, the loop; the plant's pin is hard but not rigid
    if name == 'four_dof_board':
        assert force_error(force, 8.0) < 0.5


# Over ROS 2 --------------------------------------------------------------------------------------


def figures(out: Path) -> dict[str, Any]:
    return json.loads((out / 'metrics.json').read_text(encoding='utf-8'))


def test_an_arm_of_ones_own_is_held_on_the_plane_that_is_planned_for_it(tmp_path, monkeypatch):
    planned = scene.own_scene
    monkeypatch.setattr(scene, 'own_scene', lambda *x: planned(*x)._replace(duration=1.5))
    file = str(ROOT / 'urdf' / 'four_dof.urdf.xacro')
    assert main(['scene', file, 'limits_profile:=wide', '--output', str(tmp_path)]) == 0
    [part] = figures(tmp_path / 'plane')['program']['relative']
    assert part <= SHARE  # of 5 mm off the plane
    assert len(recorded(tmp_path / 'plane' / 'bag', '/controller/constraint')) > 1400


def test_every_state_is_answered_with_the_wrench_before_it(tmp_path, monkeypatch):
    short = scene.SCENES['scara_press']._replace(duration=2.8)
    monkeypatch.setitem(scene.SCENES, 'scara_press', short)
    assert main(['scene', 'scara_press', '--output', str(tmp_path)]) == 0
    out = tmp_path / 'scara_press'
    assert (out / 'report.html').is_file()
    assert max(figures(out)['limits']['effort_share']) <= 1.0
    wrenches, states, changes = (
        recorded(out / 'bag', topic)
        for topic in ('/controller/measured_wrench', '/joint_states', '/controller/changes')
    )
    assert len(wrenches) >= len(states) - 1  # one before each state
    forces = np.linalg.norm([wrench_of(x)[:3] for x in wrenches], axis=1)
    assert force_error(forces, 20.0) < 0.5
    taken = [x for x in (json.loads(y.data) for y in changes) if x['kind'] == 'measured wrench']
    # The first one comes before the activation; a tick is of 1 ms, the first at 0.
    assert [(x['tick'], x['stamp_ns']) for x in taken] == [
        (tick, (tick - 1) * 1_000_000) for tick in range(2, len(states) + 1)
    ]


def hold_up(process: subprocess.Popen[bytes], seconds: float) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def test_nodes_that_a_busy_machine_holds_up_change_nothing(tmp_path, monkeypatch):
    """A recorder for 0.3 s, some 1000 of the 2000 states kept; a simulator longer than 0.5 s."""
    monkeypatch.setenv(*next(iter(STOPPABLE.items())))
    short = scene.SCENES['circle']._replace(duration=3.0)
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
        text = nodes.output('recorder')
    lost = re.findall(r'\S+: \d+ recorded, \d+ repeated \(left out\), (\d+) lost', text)
    assert len(lost) > 6
    assert {*lost} == {'0'}
    rows = recorded(tmp_path / 'bag', '/controller/constraint')
    assert np.unique(np.diff([stamp_ns(row) for row in rows])).tolist() == [1_000_000]
    f = np.array([row.position for row in rows])
    assert deviation('circle', f) < SHARE
    assert np.abs(f[-500:]).max() < 1e-4
