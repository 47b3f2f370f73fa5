# SPDX-License-Identifier: Apache-2.0
"""Tables as other loggers export them are read, by their names or by a YAML file."""

import json
from contextlib import nullcontext
from datetime import datetime, timedelta

import numpy as np
import pytest
import tables
import yaml
from numpy.testing import assert_allclose, assert_array_equal

from robot_dynamics_ros.errors import ConfigurationError, RobotDynamicsError
from robot_dynamics_ros.recordings.bag.files import find_files
from robot_dynamics_ros.recordings.bag.tables import read_table
from robot_dynamics_ros.recordings.reading import RobotChoice

N, JOINTS = 40, ('pan', 'lift')
TIME = np.arange(N) * 0.002
START = datetime(2026, 1, 31, 12)
NS = 1769860800 * 10**9  # START, in UTC


def values():
    """Return position, velocity and effort, shape (N, 2) each, in units of thousandths."""
    return np.round(np.random.default_rng(3).normal(size=(3, N, 2)), 3)


Q, V, TAU = values()


def write(path, heads, columns, separator=',', point='.', encoding='utf-8', above=''):
    cells = [[x if isinstance(x, str) else repr(float(x)).replace('.', point) for x in row]
             for row in zip(*columns, strict=True)]  # fmt: skip
    lines = [separator.join(row) for row in [heads, *cells]]
    path.write_bytes((above + '\n'.join(lines) + '\n').encode(encoding))
    return path


def heads(pattern='{joint}_{quantity}', quantities=('pos', 'vel', 'eff'), joints=JOINTS):
    return [pattern.format(joint=j, quantity=q) for q in quantities for j in joints]


ALL = [*Q.T, *V.T, *TAU.T]
DATES = [(START + timedelta(seconds=x)).isoformat(timespec='microseconds') for x in TIME]
#: Columns by their quantity or unit, one or one of each joint.
DATA = {
    'time': [TIME], 'ms': [1e3 * TIME], 'us': [1e6 * TIME], 'q': [*Q.T],
    'v': [*V.T], 'tau': [*TAU.T],
    'deg': [*np.degrees(Q).T], 'deg/s': [*np.degrees(V).T], 'mNm': [*1e3 * TAU.T],
    'dates': [DATES], 'utc': [[f'{x}Z' for x in DATES]], 'sec': [['1769860800'] * N],
    'ns': [[str(NS + 2_000_000 * k) for k in range(N)]], 'nanosec': [1e9 * TIME],
    'since_us': [[str(NS // 1000 + 2000 * k) for k in range(N)]],
    'since_ms': [[f'{NS // 1_000_000 + 2 * k}.0' for k in range(N)]],
    **{f'{key}{j}': [x[:, j]] for key, x in (('v', V), ('tau', TAU)) for j in (0, 1)},
}  # fmt: skip
#: Names of the columns, what is in them, and how they are written; joints other than ``JOINTS``,
#: and a YAML file beside the table. PLAIN are the names of ``heads``.
FORMS = yaml.safe_load(r"""
rtde: {heads: 'timestamp,actual_q_0,actual_q_1,actual_qd_0,actual_qd_1,target_moment_0,target_moment_1',
       data: time q v tau, how: {separator: ' '}, joints: [actual_q_0, actual_q_1]}
franka: {heads: 'duration,q[0],q[1],dq[0],dq[1],tau_J[0],tau_J[1]', data: ms q v tau,
         how: {separator: ', '}, joints: ['q[0]', 'q[1]']}
units in names: {heads: 'time,q0_deg,q1_deg,dq0_deg,dq1_deg,tau0_mNm,tau1_mNm',
                 data: time deg deg/s mNm, joints: [q0, q1]}
velocities in the unit of positions: {heads: 'time,q0 [deg],q1 [deg],dq0,dq1,tau0,tau1',
                                      data: time deg deg/s tau, joints: [q0, q1]}
units in the file: {heads: 'time,q0,q1,dq0,dq1,tau0,tau1', data: time deg deg/s mNm,
                    joints: [q0, q1],
                    mapping: {position_unit: [deg, deg], effort_unit: mN m}}
decimal commas, cp1252: {heads: 'time_ms,Pos pan [°],Pos lift [°],Vel pan [°/s],Vel lift [°/s],Torque pan [Nm],Torque lift [Nm]',
                         data: ms deg deg/s tau,
                         how: {separator: ;, point: ',', encoding: cp1252, above: "sep=;\n"}}
dates, byte order mark: {heads: 'timestamp,PLAIN', data: dates q v tau,
                         how: {encoding: utf-8-sig}}
dates of UTC: {heads: 'timestamp,PLAIN', data: utc q v tau}
dates as index: {heads: ',PLAIN', data: dates q v tau}
Unicode text of Excel: {heads: 'Time [s],PLAIN', data: time q v tau,
                        how: {separator: "\t", point: ',', encoding: utf-16}}
Unicode without a mark: {heads: 't,PLAIN', data: time q v tau, how: {encoding: utf-16-le}}
Unicode of the other order: {heads: 't,PLAIN', data: time q v tau, how: {encoding: utf-16-be}}
two tables side by side: {heads: 't,PLAIN,t', data: time q v tau time}
of a namespace: {heads: 't,/a/joint_states/pan/position,/a/joint_states/lift/position,/a/joint_states/pan/velocity,/a/joint_states/lift/velocity,/a/joint_states/pan/effort,/a/joint_states/lift/effort',
                 data: time q v tau}
comments: {heads: 't,PLAIN', data: time q v tau, how: {above: "# arm: mine, day: 3\n\n"}}
ns since 1970: {heads: 'stamp_ns,PLAIN', data: ns q v tau}
ns since 1970, without their unit: {heads: 'timestamp,PLAIN', data: ns q v tau}
us since 1970, without their unit: {heads: 'timestamp,PLAIN', data: since_us q v tau}
ms since 1970, without their unit: {heads: 'timestamp,PLAIN', data: since_ms q v tau}
a line of units: {heads: 't,PLAIN', data: time deg v tau, how: {above: "Scope 3\n"}}
microseconds: {heads: 'time_us,PLAIN', data: us q v tau}
sec and nanosec: {heads: 'header.stamp.sec,header.stamp.nanosec,PLAIN',
                  data: sec nanosec q v tau}
columns in another order: {heads: 'lift_eff,pan_vel,t,pan_pos,lift_pos,lift_vel,pan_eff',
                           data: tau1 v0 time q v1 tau0}
""")  # noqa: E501


@pytest.mark.parametrize('form', FORMS)
def test_a_table_is_read_as_it_was_exported(form, tmp_path):
    row = FORMS[form]
    names = row['heads'].replace('PLAIN', ','.join(heads())).split(',')
    columns = [x for word in row['data'].split() for x in DATA[word]]
    path = write(tmp_path / 'log.csv', names, columns, **row.get('how', {}))
    if 'mapping' in row:
        path = tmp_path / 'log.yaml'
        path.write_text(json.dumps({'table': 'log.csv', **row['mapping']}))
    if form == 'a line of units':
        first, second, *rows = path.read_text().splitlines()
        units = 's,deg,deg,rad/s,rad/s,Nm,Nm'
        path.write_text('\n'.join([first, second, units, *rows]))
    table = read_table(path)
    assert table.joints == tuple(row.get('joints', JOINTS))
    for key, expected in (('position', Q), ('velocity', V), ('effort', TAU)):
        assert_allclose(table.values[key], expected, rtol=1e-14, atol=1e-15)
    assert_array_equal(np.diff(table.time_ns), 2_000_000)
    if form.startswith(('dates', 'ns', 'us', 'ms', 'sec')):
        assert table.time_ns[0] == NS


def test_what_is_not_read_is_named_and_currents_ask_for_a_profile(tmp_path):
    names = [*heads(quantities=('pos', 'vel', 'current_mA')), 'battery', 'tcp_speed']
    path = write(tmp_path / 'log.csv', ['t', *names], [TIME, *ALL, TIME, TIME])
    notes = read_table(path).notes
    assert 'columns that are not read: battery, tcp_speed' in notes
    assert any('pan_current_mA' in x and '--driver-profile' in x for x in notes[1:])


def test_commands_after_a_restart_of_the_clock_are_not_fewer_than_the_states(tmp_path):
    names = [*heads(quantities=('pos', 'vel', 'cmd'))]
    again = [np.append(x, x) for x in (TIME, *ALL)]
    path = write(tmp_path / 'log.csv', ['t', *names], again)
    with RobotChoice().read(path) as reader:
        notes = reader.read().notes
    assert 'treated as a restart' in notes[-1]
    assert len(notes) == 2, 'beside the columns'
    path = write(tmp_path / 'many.csv', ['t', *names], [np.tile(x, 7) for x in (TIME, *ALL)])
    with RobotChoice().read(path) as reader:
        *_, restart, more = reader.read().notes
    assert ('treated as a restart' in restart, more) == (True, 'time went back 3 more times')


@pytest.mark.parametrize(('column', 'unit'), [('eff', ''), ('current_mA', 'mA'), ('eff_A', 'A')])
def test_currents_are_no_torques(column, unit, tmp_path):
    names = heads(quantities=('pos', 'vel', column))
    if unit == 'A':  # of one joint only
        names[4] = 'pan_eff_Nm'
    path = write(tmp_path / 'log.csv', ['t', *names], [TIME, *ALL])
    with RobotChoice().read(path) as reader:
        run = reader.read()
    told = f'efforts are in {unit}, and no driver profile (--driver-profile) gives a torque_'
    assert any(note.startswith(told) for note in run.notes) is bool(unit)
    assert np.isnan(run.measured_effort).all() == bool(unit)


#: Names of the columns, what is said of them, and what a YAML file has to say.
REFUSED = yaml.safe_load("""
letters:
  - t,a,b,c,d,e,f
  - has no columns of positions
  - {joints: [pan, lift], position_unit: rad, position: [a, b], velocity: [c, d], effort: [e, f]}
an unknown unit:
  - t,pan_pos_ticks,lift_pos_ticks,pan_vel,lift_vel,pan_eff,lift_eff
  - of positions
  - {position_unit: rad, position: [pan_pos_ticks, lift_pos_ticks]}
a missing joint:
  - t,pan_pos,lift_pos,pan_vel,x,pan_eff,lift_eff
  - no single column of velocity for lift among pan_vel
  - {velocity: [pan_vel, x]}
two of one kind:
  - t,pan_pos,lift_pos,pan_angle,lift_angle,pan_eff,lift_eff
  - no single column of position for pan, lift among pan_pos, pan_angle
  - {position: [pan_pos, lift_pos]}
other numbers: ['t,q0,q1,dq0,dq1,tau1,tau2', 'of effort for q0 among tau1, tau2',
                {effort: [tau1, tau2]}]
no time: ['sample,PLAIN', has no column of times, {time: sample, time_unit: s}]
unit of time: ['t,PLAIN', "column 't' advances by 2 s: in which time_unit", {time_unit: ms}]
""")


@pytest.mark.parametrize('kind', REFUSED)
def test_what_is_refused_is_read_by_a_yaml_file(kind, tmp_path):
    names, problem, known = REFUSED[kind]
    names = names.replace('PLAIN', ','.join(heads())).split(',')
    scale = 1e3 if kind == 'unit of time' else 1.0
    path, mapped = write(tmp_path / 'log.csv', names, [scale * TIME, *ALL]), tmp_path / 'log.yaml'
    with pytest.raises(RobotDynamicsError, match=f'{problem}.*, in a YAML file beside it'):
        read_table(path)
    mapped.write_text(yaml.safe_dump({'table': 'log.csv', **known}))
    table = read_table(mapped)
    assert_array_equal(table.values['effort'], TAU)


def test_states_of_several_fields_of_a_message_are_told_apart_by_the_file(tmp_path):
    """Measured, desired and motor state of one message, as PlotJuggler exports it."""
    fields = [f'/rs/{x}_state' for x in ('measured_joint', 'desired_joint', 'motor')]
    names = [f'{field}/{x}[{j}]' for field in fields
             for x in ('position', 'effort') for j in range(5)]  # fmt: skip
    columns = np.random.default_rng(5).normal(size=(len(names), N))
    path, mapped = tmp_path / 'log.csv', tmp_path / 'log.yaml'
    write(path, ['__time', *names], [TIME, *columns])
    with pytest.raises(RobotDynamicsError, match='no columns of positions; its columns: __time'):
        read_table(path)
    own = {'position': names[:5], 'effort': names[5:10], 'reference_position': names[20:25]}
    mapped.write_text(json.dumps({'table': 'log.csv', **own}))
    table = read_table(mapped)
    for key, first in (('position', 0), ('effort', 5), ('reference_position', 20)):
        assert_array_equal(table.values[key].T, columns[first : first + 5])
    assert f'position {names[0]} to {names[4]}' in table.notes[0]
    assert f': {names[10]} to {names[14]}, {names[15]} to' in table.notes[1]


def test_a_unit_is_declared_once(tmp_path):
    """By the name of a column, or instead by the YAML file, or by a driver profile."""
    names = ['t', *heads(quantities=('pos', 'vel', 'eff_mNm'))]
    table = write(tmp_path / 'log.csv', names, [TIME, *ALL])
    mapped, profile = tmp_path / 'log.yaml', tmp_path / 'driver.yaml'
    mapped.write_text('{table: log.csv, effort_unit: motor mN m}')
    for path, factor, unit, twice in (
        (table, 1e-3, 'motor mN m', True),
        (table, 1e-3, 'motor N m', False),
        (mapped, 1.0, 'motor mN m', False),
    ):
        assert_allclose(read_table(path).values['effort'], factor * TAU)
        profile.write_text(
            f'{{name: mine, state: {{effort: total}}, defaults: {{effort_unit: {unit}}}}}'
        )
        choice = RobotChoice(driver_profile=str(profile))
        told = "'mine', effort_unit: is motor mN m, and the table declares mN m: converted twice"
        with pytest.raises(ConfigurationError, match=told) if twice else nullcontext():
            choice.read(path)


#: Names of the columns of positions, keys of a YAML file, and what is said of them.
@tables.written("""
    ['joint{}_pos_deg', {}] | of joint 'joint3' of the table: is in deg, but ... slides;
    ['joint{}_pos_m', {}] | joint 'joint1' of ... in m, but ... turns; known: rad, mrad
    ['joint{}_pos', {velocity_unit: rpm}] | velocity of joint 'joint3' ... known: m/s, mm/s
    ['joint{}_pos', {effort_unit: N m}] | effort of joint 'joint3' ... known: N, kN;
    ['joint{}_pos_deg', {position_unit: [deg, deg, mm, deg]}] | none
""")
def test_a_unit_is_one_of_the_kind_of_its_joint(given, said, tmp_path):
    """Also under another name, and never as the unit of the first joint."""
    heads, mapping = given
    names = [form.format(j) for form in (heads, 'joint{}_vel', 'joint{}_eff') for j in range(1, 5)]
    write(tmp_path / 'log.csv', ['t', *names], [TIME, *np.vstack([ALL, ALL])])
    (tmp_path / 'log.yaml').write_text(json.dumps({'table': 'log.csv', **mapping}))
    refused = not said.endswith('none')
    for named in ((), ('joint1', 'joint2', 'joint3', 'joint4')):
        choice = RobotChoice('scara', recorded_joints=named)
        with choice.read(tmp_path / 'log.yaml') as reader:
            tree = choice.load(reader)
            with pytest.raises(RobotDynamicsError, match=said) if refused else nullcontext():
                assert choice.run(reader, tree).position[0, 2] == pytest.approx(1e-3 * ALL[2][0])


#: A table, keys of a YAML file beside it, and what is said of them.
@tables.written(r"""
    ["0,1,2\n0.1,1,2", {}] | has no line of names
    ["t,q1,q1\n0,1,2\n0.1,1,2", {}] | has 2 columns 'q1'
    ["t|q1|tau1\n0|1|2\n1|1|2", {}] | has no row of numbers; give text ... commas or spaces; a spreadsheet exports it as CSV
    ["t,/a/joint_states/q/pan,/b/joint_states/q/pan\n0,1,2", {}] | has no single column of position for pan among /a/joint_states/q/pan, /b/joint_states/q/pan; name
    ["t,q1,q2,tau1\n0,1,2\n0.1,1,2", {}] | line 2 has 3 cells below 4 names; name every column
    ["t,q1,tau1\n0,1,2\n0.1,1,off", {}] | line 3, column 'tau1': 'off' is no number
    ["t,q1,tau1\n0,1,2\nsoon,1,1", {}] | line 3, column 't': 'soon' is no time
    ["t,q1,tau1\n0,1,2\n0.1,1,1\n1e12,1,1", {}] | line 4, column 't': '1e12' is no time
    ["Fan Time [s],States Time [s],q1,tau1\n0,0,1,2\n,1,1,1", {}] | line 3, column 'Fan Time [s]': '' is no time; ... ; or give time in a YAML file: States Time
    ["t,q1,tau1\n0,0,1,0,2,0\n0,1,1,0,2,0", {}] | line 2 has 6 cells below 3 names; ... semicol
    ["t,q1,q2\n0,1,2\n0.1,1,2", {position_unit: grad}] | its unit 'grad' is none of position
    ["t,q1,q2\n0,1,2\n0.1,1,2", {position_unit: [deg, m, m]}] | position_unit: has 3 units, 2 col
    ["t,q1,q2\n0,1,2\n0.1,1,2", {positions_unit: deg}] | positions_unit
    ["t,q1,q2\n0,1,2\n0.1,1,2", {joints: [pan]}] | joints names 1
    ["t,q1,q2,a_pos_3\n0,1,2,3\n0.1,1,2,3", {position: [q1, q2], reference_position: a_pos_3}] | no single column of reference_position for q1, q2 among a_pos_3
    ["t,q1,q2\n0,1,2\n0.1,1,2", {position: [q1, q3]}] | has no column 'q3' for position; its columns: t, q1, q2; correct position
    ["t,q1 [grad],q2 [grad]\n0,1,2\n0.1,1,2", {}] | column 'q1 [grad]': its unit 'grad' is none of pos
    ["t,q1_Nm,q2_Nm\n0,1,2\n0.1,1,2", {}] | its unit 'N m' is none of position
""")  # noqa: E501
def test_what_is_wrong_in_a_table_or_its_file_is_named(given, said, tmp_path):
    (content, mapping), log, mapped = given, tmp_path / 'log.csv', tmp_path / 'log.yaml'
    log.write_text(f'{content}\n')
    mapped.write_text(json.dumps({'table': 'log.csv', **mapping}))
    with pytest.raises(RobotDynamicsError, match=said):
        read_table(mapped if mapping else log)


@pytest.mark.parametrize('content', ['x' * 200_000, 't,q1\n0,1\n0.1,"' + 'x' * 200_000])
def test_a_text_of_another_format_is_refused(content, tmp_path):
    """As a log in one line, or a quotation mark that is not closed."""
    (tmp_path / 'log.txt').write_text(content)
    with pytest.raises(
        RobotDynamicsError, match=r'line \d: field larger .*; give text with a line'
    ):
        read_table(tmp_path / 'log.txt')


@pytest.mark.parametrize('content', ['', '5', 'a table', '[table]'])
def test_a_yaml_file_without_keys_is_no_recording(content, tmp_path):
    (tmp_path / 'log.yaml').write_text(content)
    with pytest.raises(RobotDynamicsError, match=r"log.yaml': is not a recording"):
        find_files(tmp_path / 'log.yaml')


def test_numbers_may_begin_with_their_point(tmp_path):
    rows = [[f'{0.002 * k:.3f}', f'.{k + 11}', '-.25'] for k in range(N)]
    path = write(tmp_path / 'log.csv', ['t', 'q1', 'q2'], [*zip(*rows, strict=True)])
    assert read_table(path).values['position'].tolist()[0] == [0.11, -0.25]


@pytest.mark.parametrize(('unit', 'size'), [(' [rad]', 1.0), ('', np.pi / 180)])
def test_references_are_in_their_own_unit_or_else_in_that_of_the_positions(unit, size, tmp_path):
    names = ['t', 'q1 [deg]', 'q2 [deg]', f'q_ref1{unit}', f'q_ref2{unit}']
    table = read_table(write(tmp_path / 'log.csv', names, [TIME, *Q.T, *V.T]))
    assert_allclose(table.values['position'], np.radians(Q), rtol=1e-14)
    assert_allclose(table.values['reference_position'], size * V, rtol=1e-14)


@pytest.mark.parametrize(
    ('cut', 'sparse'),
    [('0.07', True), ('0.078,1.2\0\0', False), ('log ended by operator', False)],
)
def test_rows_that_end_early_are_left_out_and_counted(cut, sparse, tmp_path):
    """The last one, as of a logger that was killed, says nothing of the others."""
    path = write(tmp_path / 'log.csv', ['t', *heads(), 'event'], [TIME, *ALL, [''] * N])
    lines = path.read_text().splitlines()
    lines[5] = lines[5].rpartition(',')[0].rpartition(',')[0]
    if sparse:  # the last column is written in one row only
        lines[6:] = [line.removesuffix(',') for line in lines[6:]]
    path.write_text('\n'.join([*lines, cut]))
    table = read_table(path)
    assert_array_equal(table.values['effort'], np.delete(TAU, 4, axis=0))
    said = '2 rows left out that end early, the first in line 6: 6 cells below 8 names'
    assert said in table.notes
