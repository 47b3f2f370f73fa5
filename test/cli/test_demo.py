# SPDX-License-Identifier: Apache-2.0
"""What the demo requires of computed torque, compared with PD + gravity."""

from types import SimpleNamespace

import pytest
import yaml

from robot_dynamics_ros.cli import demo, processes
from robot_dynamics_ros.cli.demo import DemoRun, outside_band
from robot_dynamics_ros.errors import PeerTimeoutError
from robot_dynamics_ros.recordings.report.runs import BagResult


def run(law, errors, tool_mm, travel, slides=None, tool_travel_mm=100.0):
    """Return a run of joints a, b, ... with these errors."""
    joints = [chr(97 + k) for k in range(len(errors))]
    tracking = {'rms_error': errors, 'tool_rms_mm': tool_mm, 'travel': travel}
    figures = {'tracking': {**tracking, 'tool_travel_mm': tool_travel_mm}}
    result = BagResult('bag', tuple(joints), figures)
    return DemoRun(law, result, slides or (False,) * len(joints), 0.0)


#: Errors of the joints under both laws, of the tool, mm, travel, whether the joint slides; what is
#: said. The second joint of the first does not move: its errors are rounding. A slide moves far in
#: m where a turn in rad does not.
CASES = yaml.safe_load("""
rounding: [[0.1, 1.0e-10], [1.0e-3, 1.0e-10], [5.0, 0.05], [0.5, 1.0e-9], null, []]
no error: [[0.1, 1.0e-3], [1.0e-3, 0.0], [5.0, 0.0], [0.5, 0.5], null, []]
at rest: [[0.1, 0.0], [1.0e-3, 0.0], [5.0, 0.0], [0.5, 0.0], null, []]
slide: [[0.1], [0.01], [5.0, 0.05], [0.03], [true], ['arm a: 10.0 times, 20 required']]
turn: [[0.1], [0.01], [5.0, 0.05], [0.03], [false], []]
tool: [[0.1], [1.0e-3], [5.0, 1.0], [0.5], null, ['arm tool: 5.0 times, 50 required']]
tool at rest: [[0.1], [1.0e-5], [1.0e-13, 1.0e-13], [1.0], null, [], 1.0e-12]
""")


@pytest.mark.parametrize('case', CASES)
def test_only_what_moves_is_judged(case):
    *errors, tools, travel, slides, expected, tool_travel = [*CASES[case], 100.0][:7]
    laws = zip(('pd_gravity', 'computed_torque'), errors, tools, strict=True)
    runs = [run(*law, travel, slides, tool_travel) for law in laws]
    assert outside_band('arm', runs) == expected


def test_a_joint_that_the_motion_does_not_move_is_named_below_the_table(capsys):
    """A stranger read its errors, of rounding, as a perfect result."""
    one = run('computed_torque', (1e-5, 1e-10), 0.01, (0.5, 1e-9))
    more = yaml.safe_load("""
tracking: {peak_error: [1.0e-5, 1.0e-10], tool_peak_mm: 0.02}
limits: {effort_peak: [1.0, 1.0], effort_limit: [2.0, 2.0], saturated_ticks: [0, 0]}
rates: {latency_us: {p50: 1.0, p99: 2.0}, commands: 7}
""")
    own = more | {'tracking': more['tracking'] | one.result.figures['tracking']}
    demo._print('arm', [one._replace(result=one.result._replace(figures=own))])
    assert 'this motion hardly moves b, whose errors tell nothing' in capsys.readouterr().out


def test_a_bag_that_lacks_the_last_states_is_no_result(monkeypatch):
    """Beside other work, the recorder was ended 12 states early, and the errors were others."""
    said = {'simulator': 'end of the run: t = 7.884000 s', 'recorder': 'progress 7.872000'}
    nodes = SimpleNamespace(output=said.get, check=lambda: None)
    run = processes.LockstepRun('scara', {}, {}, {})
    monkeypatch.setattr(processes, '_DELIVERY_SECONDS', 0.1)
    with pytest.raises(PeerTimeoutError, match='recorder: no state of t = 7.884000 s'):
        run._await_last_state(nodes)
    said['recorder'] += '\nprogress 7.884000'
    run._await_last_state(nodes)
