# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/ run unchanged, and their output is correct."""

import os
import re
import subprocess
import sys

import mujoco
import numpy as np
import pytest
from checkout import ROOT

from robot_dynamics_ros import load_robot, make_law
from robot_dynamics_ros.control.trajectories.trajectory import Reference

pytestmark = pytest.mark.slow  # each runs in a separate process

NUMBER = r'([-+]?\d[\d.]*(?:e[-+]\d+)?)'


def run_python(*words: str) -> str:
    """Return the output of Python, run in the project's folder."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ''
    return done.stdout


def value(printed: str, before: str, after: str = '') -> float:
    """Return the number between two texts."""
    return float(re.search(re.escape(before) + r'\s*' + NUMBER + re.escape(after), printed)[1])


@pytest.mark.parametrize(
    ('page', 'before', 'lines'),
    [
        ('README.md', '', 4),
        ('docs/programs.md', '', 0),
        ('docs/mechanisms.md', 'import numpy as np\nu, ud, udd = np.full((3, 5), 0.1)\n', 0),
    ],
)
def test_the_first_code_of_a_page_runs(page, before, lines, tmp_path):
    text = (ROOT / page).read_text(encoding='utf-8')
    code = before + re.search(r'```python\n(.*?)```', text, re.DOTALL)[1]
    if "'tray.yaml'" in code:
        (tmp_path / 'tray.yaml').write_text(re.search(r'```yaml\n(.*?)```', text, re.DOTALL)[1])
        code = code.replace("'tray.yaml'", repr(str(tmp_path / 'tray.yaml')))
    assert len(run_python('-c', code).splitlines()) == lines


def test_the_first_steps_print_what_the_page_shows():
    text = (ROOT / 'docs' / 'first_steps.md').read_text(encoding='utf-8')
    code, shown = (
        re.findall(rf'```{kind}\n(.*?)```', text, re.DOTALL) for kind in ('python', 'text')
    )
    assert len(code) == len(shown) == 4
    assert run_python('-c', ''.join(code)) == ''.join(shown)


def test_the_lines_for_an_own_mujoco_model_keep_a_light_wrist_on_its_motion():
    text = (ROOT / 'docs' / 'first_steps.md').read_text(encoding='utf-8')
    lines = re.findall(r'`(model\.dof_[^`]*)`', text)
    assert len(lines) == 2
    tree = load_robot(
        '<robot name="wrist"><link name="base"/><link name="hand"><inertial><mass value="1"/>'
        '<inertia ixx="8e-4" iyy="8e-4" izz="8e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="roll" type="continuous"><parent link="base"/><child link="hand"/>'
        '<axis xyz="0 0 1"/><limit effort="12" velocity="4"/><dynamics friction="0.4"/></joint>'
        '</robot>'
    )
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><option timestep="0.001"/><worldbody><body><joint axis="0 0 1" '
        'frictionloss="0.4"/><inertial pos="0 0 0" mass="1" diaginertia="8e-4 8e-4 8e-4"/>'
        '</body></worldbody></mujoco>'
    )
    worst, reference, tau = [], Reference(1), np.zeros(1)
    for line in ('', '\n'.join(lines)):
        exec(line, {'model': model, 'h': 0.001})
        law = make_law('computed_torque', tree, natural_frequency=10.0)
        data, off = mujoco.MjData(model), 0.0
        for t in 0.001 * np.arange(3000):
            reference.position[:] = 0.1 * (1 - np.cos(2.0 * t))
            reference.velocity[:] = 0.2 * np.sin(2.0 * t)
            reference.acceleration[:] = 0.4 * np.cos(2.0 * t)
            law.effort(t, data.qpos, data.qvel, reference, tau)
            data.qfrc_applied[:] = tau
            mujoco.mj_step(model, data)
            off = max(off, abs(reference.position - data.qpos)[0])
        worst.append(off)
    assert f'{worst[0]:.1f} rad, and with these lines by {1e3 * worst[1]:.1f} mrad' in text


def test_five_formulations_agree_and_a_batch_equals_single_calls():
    printed = run_python('examples/five_formulations.py')
    assert len(printed.splitlines()) == 6
    assert value(printed, 'largest difference: ', ' N m') < 1e-13  # rounding of 19 N
    # Sines differ by an ulp.
    assert value(run_python('examples/batch_kernel.py'), 'first row, deviation: ', ' N m') < 1e-13


def test_the_closed_form_has_the_weight_of_quill_and_tool():
    printed = run_python('examples/closed_form.py')
    assert r'G_{3} &= - g \left(m_{3} + m_{4}\right)' in printed
    assert 'G_{1} = G_{2} = G_{4} &= 0' in printed


def test_the_program_is_held():
    first, *_, last = run_python('examples/constraint_program.py').splitlines()
    rows = [[float(x) for x in re.findall(NUMBER, line.split('=')[-1])] for line in (first, last)]
    assert max(rows[0]) > 10.0  # mm: it starts off the path
    # The remaining error is MuJoCo's soft Coulomb friction: 6 N on the quill give 0.3 mm.
    assert max(rows[1]) < 0.5


def test_a_session_changes_its_law_and_survives_silence():
    printed = run_python('examples/session_without_ros.py')
    pd, computed = (
        value(printed, f'{law}: largest error while returning ')
        for law in ('pd_gravity', 'computed_torque')
    )
    assert computed < 0.05 * pd
    assert 'states stop: stopped, command sent: True' in printed
    assert 'stop action gravity' in printed
    assert 'states return: holding' in printed
    assert printed.rstrip().endswith('from states and log: largest difference 0.0')
    # Only the quill is lifted by gravity: 1.15 + 0.72 kg, upward is negative along its axis.
    assert value(printed, 'command sent: True, [  0.       0.     ') == pytest.approx(
        -(1.15 + 0.72) * 9.81, abs=1e-4
    )


def test_the_heavier_arm_is_identified():
    """15 percent more on every mass; friction as the description has it."""
    printed = run_python('examples/identify_robot.py')
    found = re.findall(rf'^\s*{NUMBER} ± \S+\s+(.*)$', printed, re.MULTILINE)
    values = {name: float(number) for number, name in found}
    expected = {
        'link3.m + link4.m': 1.15 * (1.15 + 0.72),
        'joint2.damping': 0.8,
        'joint3.coulomb_friction': 6.0,
    }
    # Printed with five decimals; the plant steps as the preparation 'semi_implicit' assumes.
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-5)
