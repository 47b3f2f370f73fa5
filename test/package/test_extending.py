# SPDX-License-Identifier: Apache-2.0
"""Test the example classes of docs/extending.md as printed there; the law in the nodes:
``test/ros/test_outside_law.py``.
"""

import re
from typing import Any

import numpy as np
import pytest
from checkout import ROOT
from numpy.testing import assert_array_equal
from oracles import PinocchioOracle, relative_error
from recorded_arm import Drives, periodic_motion, semi_implicit_run
from samples import random_state, sample

from robot_dynamics_ros import load_robot
from robot_dynamics_ros.constraints import CONSTRAINTS, make_constraint
from robot_dynamics_ros.constraints.registry import arguments
from robot_dynamics_ros.dynamics.registry import FORMULATIONS
from robot_dynamics_ros.recordings.metrics import analysis
from robot_dynamics_ros.symbolic.operation_counts import operation_counts

PAGE = ROOT / 'docs' / 'extending.md'


def shown(name: str) -> Any:
    """Return a class or function of the page, executed as a reader would paste it."""
    blocks = re.findall(r'```python\n(.*?)```', PAGE.read_text(encoding='utf-8'), re.DOTALL)
    (code,) = (block for block in blocks if f'class {name}(' in block or f'def {name}(' in block)
    names: dict[str, Any] = {'__name__': 'pasted'}
    exec(compile(code, str(PAGE), 'exec', dont_inherit=True), names)
    return names[name]


def test_the_formulation_is_right_and_has_the_operations_that_the_page_states(rng, monkeypatch):
    arm = sample('branched')
    q, v, a = random_state(arm.tree, rng)
    expected = PinocchioOracle.of(arm).inverse_dynamics(q, v, a)
    formulation = shown('VirtualWork')
    # Sums of about a hundred products: rounding is about 1e-15 of the largest term.
    assert relative_error(formulation(arm.tree).inverse_dynamics(q, v, a), expected) < 1e-12
    monkeypatch.setitem(FORMULATIONS, 'work', formulation)
    left = operation_counts(sample('scara').tree, 'work').after.total
    assert f'has {left} operations' in ' '.join(PAGE.read_text(encoding='utf-8').split())


def test_the_constraint_is_what_it_says(rng, monkeypatch):
    arm = sample('four_dof')
    monkeypatch.setitem(CONSTRAINTS, 'swing', shown('Swing'))
    row = make_constraint('swing', arm.tree, 'swing', {'frame': 'tool', 'square': 0.2})
    q, v, _ = random_state(arm.tree, rng)
    x, y, _ = PinocchioOracle.of(arm).frame_pose('tool', q)[1]
    assert row.evaluate(q, v, 0.0).f == pytest.approx([x * x + y * y - 0.2], abs=1e-14)


@pytest.mark.parametrize('written', ['Sequence[float]', 'Numbers'])
def test_a_point_is_read_by_either_name_of_its_type(written):
    def kind(tree, name, point): ...

    kind.kind, kind.__annotations__ = 'own', {'point': written}
    (reader,) = arguments(kind)[0].values()
    assert_array_equal(reader('point', [1, 2, 3]), [1.0, 2.0, 3.0])


def test_the_metric_gives_a_figure_and_a_column(monkeypatch):
    arm = sample('rp')
    q = periodic_motion(1, 2, 1.0, 1e-3, swing=0.1)
    run = semi_implicit_run(arm, Drives(0, 0, 0), q, 1e-3)
    tree = load_robot(arm.xml, effort_limit=1e3)
    monkeypatch.setitem(analysis.METRICS, 'smoothness', shown('smoothness'))
    found = analysis.evaluate(run, tree, analysis.AnalysisSettings())
    step = np.diff(run.effort, axis=0)
    column = found.columns(slice(0, len(run.time)))['effort_step']
    assert_array_equal(column, np.vstack([np.zeros(2), step]))
    by_hand = np.sqrt(np.nansum(step**2, axis=0) / len(run.time))
    np.testing.assert_allclose(found.figures['smoothness']['rms_step'], by_hand, rtol=1e-12)
