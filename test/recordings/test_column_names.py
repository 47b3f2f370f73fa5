# SPDX-License-Identifier: Apache-2.0
"""Names of columns as loggers write them: quantity, role, joint and unit."""

from __future__ import annotations

import pytest

from robot_dynamics_ros.recordings.bag.column_names import parse

#: A column, and its quantity, joint and unit, or nothing if it is of no joint. A 'd' behind
#: q or theta is the desired one, before it a derivative.
NAMES = """
    q1                              | position           | 1                  |
    qd1                             | velocity           | 1                  |
    j1_pos_deg                      | position           | j1                 | deg
    j1_eff_Nm                       | effort             | j1                 | N m
    J1 Position (deg)               | position           | J1                 | deg
    Axis 3 speed [rpm]              | velocity           | Axis 3             | rpm
    joint1.position                 | position           | joint1             |
    left/joint1/velocity            | velocity           | left/joint1        |
    /joint_states/joint1/effort     | effort             | joint1             |
    /joint_states/position[0]       | position           | 0                  |
    field.velocity3                 | velocity           | 3                  |
    joint_positions[elbow]          | position           | elbow              |
    tau[elbow] (mN m)               | effort             | elbow              | mN m
    shoulder_pan_joint_position_rad | position           | shoulder_pan_joint | rad
    elbow_joint_speed_rad_per_s     | velocity           | elbow_joint        | rad/s
    effort_joint1_Nm                | effort             | joint1             | N m
    slide_pos_mm                    | position           | slide              | mm
    pos_A                           | position           | A                  |
    pos_left_A                      | position           | left_A             |
    A1_pos_ist                      | position           | A1                 |
    A1_pos_soll                     | reference_position | A1                 |
    vel_j1_degps                    | velocity           | j1                 | deg/s
    position.elbow [°]              | position           | elbow              | deg
    actual_q_0                      | position           | 0                  |
    actual_current_0                | effort             | 0                  | A
    current_position_1              | position           | 1                  |
    D_Theta_1                       | velocity           | 1                  |
    d_q1                            | velocity           | 1                  |
    theta1_dot                      | velocity           | 1                  |
    q_dot[0]                        | velocity           | 0                  |
    elbow_qdot_deg/s                | velocity           | elbow              | deg/s
    theta_d_1                       | reference_position | 1                  |
    target_moment_0                 | effort             | 0                  |
    q_d[1]                          | reference_position | 1                  |
    tau_J_d[0]                      | command            | J_0                |
    cmd_tau_1                       | command            | 1                  |
    TQ1[Nm]                         | effort             | 1                  | N m
    torq_elbow                      | effort             | elbow              |
    q1 [grad]                       | position           | 1                  | grad
    j1 effort [%]                   | effort             | j1                 | percent
    /a/b_state/desired_joint_state/velocity[2] | reference_velocity | a/b_state_2 |
    /a/b_state/motor_state/position[2] | position        | a/b_state/motor_state_2 |
    time                            |
    t                               |
    robot_mode                      |
    actual_TCP_pose_0               |
    joint_temperatures_0            |
    target_qdd_0                    |
    j1_pos_vel                      |
    j1_pos_ticks                    |
    battery                         |
    DD_Theta_1                      |
    theta1_ddot                     |
    q_acc_1                         |
    torque_1_dot                    |
    Commands Time [s]               |
    command_stamp                   |
"""


def test_a_name_says_quantity_joint_and_unit_in_any_order():
    for line in NAMES.strip().splitlines():
        head, *expected = (cell.strip() for cell in line.split('|'))
        column = parse(head)
        found = [column.key, column.joint, column.unit] if column else ['']
        assert found == expected, head
    assert not parse('')


@pytest.mark.parametrize('other', ['joint1', 'J1', 'joint_01', 'axis 1', 'tau_J[1]', 'a1'])
def test_counted_joints_are_the_same_however_they_are_written(other):
    head = other if '[' in other else f'{other}_tau'
    assert parse(head).label == parse('q1').label == '1'
    assert parse('panda_joint1_tau').label == 'panda_joint1'


def test_torques_precede_currents_and_what_is_measured_what_is_not():
    order = 'actual_tau_1', 'tau_1', 'actual_current_1', 'current_1', 'target_moment_1'
    ranks = [parse(head).rank for head in order]
    assert ranks == sorted({*ranks})
