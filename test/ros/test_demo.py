# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it: its figures, files and failures."""

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import tables
from processes import ROOT, wait_until

from robot_dynamics_ros.__main__ import main

# A demo of a minute may take several on a busy machine.
pytestmark = pytest.mark.timeout(900)
#: Output of the demo on another machine; lockstep makes it the same everywhere.
FIGURES = json.loads((ROOT / 'test' / 'data' / 'demo_figures.json').read_text(encoding='utf-8'))


@pytest.fixture(scope='module')
def demo(tmp_path_factory) -> tuple[str, Path, dict]:
    """What the demo of the spatial arm prints under one law, its output folder and figures."""
    folder = tmp_path_factory.mktemp('demo')
    words = ['demo', 'four_dof', '--law', 'computed_torque', '--out', str(folder)]
    with contextlib.redirect_stdout(io.StringIO()) as said, pytest.MonkeyPatch.context() as patch:
        patch.setenv('COLUMNS', '160')
        assert main(words) == 0
    out = folder / 'four_dof' / 'computed_torque'
    return said.getvalue(), out, json.loads((out / 'metrics.json').read_text(encoding='utf-8'))


def test_it_prints_a_table_and_writes_reports_of_the_same_figures_on_every_machine(demo):
    """Another implementation's efforts differ by rounding."""
    said, out, figures = demo
    for text in ('four_dof', 'computed torque', 'saturated ticks', 'p99'):
        assert text in said
    (difference,) = re.findall(r'by Pinocchio.*?(\d\.\de[+-]\d\d)', said)
    assert float(difference) < 1e-9  # rounding of efforts up to 100 N, a thousand times
    page = (out / 'report.html').read_text(encoding='utf-8')
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="https?:', page)
    assert 'Distance of the tool from its reference' in page
    found = figures['limits'] | figures['rates'] | figures['tracking']
    # Six digits; rounding of another processor's arithmetic is damped out by the feedback.
    for name, expected in FIGURES.items():
        assert found[name] == pytest.approx(expected, rel=1e-6)
    assert found['saturated_ticks'] == [0, 0, 0, 0]


def test_a_run_over_ros_is_replayed_to_the_digit_and_explained(demo, tmp_path):
    """The same object and the same numbers on the same machine."""
    _, out, figures = demo
    assert main(['replay', str(out / 'bag'), '--output', str(tmp_path)]) == 0
    found = json.loads((tmp_path / 'replay.json').read_text('utf-8'))
    assert max(found['peak']) <= 1e-9, found
    assert found['commands'] >= figures['rates']['commands']
    assert figures['timing']['name'] == 'semi_implicit'
    assert figures['effort']['source'] == 'measured, delayed by one step'
    # The plant's Coulomb friction is a soft constraint, solved to 1e-14 with an impedance of
    # 0.9999.
    assert max(figures['effort']['residual_share']) < 1e-4


def test_a_dead_node_ends_the_demo_with_its_name(tmp_path):
    given = ['demo', '--robot', 'scara', '--law', 'pd_gravity', '--out', str(tmp_path)]
    run = psutil.Popen(
        [sys.executable, '-m', 'robot_dynamics_ros', *given],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
    )  # fmt: skip
    log = tmp_path / 'scara' / 'pd_gravity' / 'logs' / 'trajectory.log'
    wait_until(lambda: log.exists() and 'sent circle' in log.read_text(), 90.0, 'the motion')
    (simulator,) = (child for child in run.children() if 'simulate' in child.cmdline())
    simulator.kill()
    output, _ = run.communicate(timeout=180)
    assert run.returncode == 2
    assert 'node simulator ended with -9' in output
    assert 'Traceback' not in output


@tables.written("""
demo --robot scada | known: four_bar
demo --law magic | choose from
simulate --params no_such_file.yaml | parameter file 'no_such_file.yaml'
simulate -p mode | NAME:=VALUE
simulate -p mode:=x | unknown mode 'x'; known: lockstep, real_time
dance | invalid choice
""")
def test_wrong_command_lines_get_one_clear_line(given, said, capsys):
    try:
        code = main(given.split())
    except SystemExit as end:  # of a usage error
        code = end.code
    assert code == 2
    assert re.search(said, capsys.readouterr().err)
