# SPDX-License-Identifier: Apache-2.0
"""Names of columns as loggers write them: quantity, role, joint and unit."""

from robot_dynamics_ros.recordings.bag.column_names import parse

#: A column, and its quantity, joint and unit, or nothing if it is of no joint.
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
    state.q[0]                      | position           | 0                  |
    tau[elbow] (mN m)               | effort             | elbow              | mN m
    shoulder_pan_joint_position_rad | position           | shoulder_pan_joint | rad
    elbow_joint_speed_rad_per_s     | velocity           | elbow_joint        | rad/s
    effort_joint1_Nm                | effort             | joint1             | N m
    slide_pos_mm                    | position           | slide              | mm
    pos_A                           | position           | A                  |
    vel_j1_degps                    | velocity           | j1                 | deg/s
    position.elbow [°]              | position           | elbow              | deg
    actual_q_0                      | position           | 0                  |
    actual_current_0                | effort             | 0                  | A
    elbow_qd_deg/s                  | velocity           | elbow              | deg/s
    target_moment_0                 | effort             | 0                  |
    target_q_0                      | reference_position | 0                  |
    q_d[1]                          | reference_position | 1                  |
    j1_pos_ref                      | reference_position | j1                 |
    a1_pos_act                      | position           | a1                 |
    measured_position_2             | position           | 2                  |
    q_ref1                          | reference_position | 1                  |
    q_dot[0]                        | velocity           | 0                  |
    theta_dot_2                     | velocity           | 2                  |
    elbow_theta                     | position           | elbow              |
    tau_cmd_1                       | command            | 1                  |
    tau_J[0]                        | effort             | 0                  |
    tau_J_d[0]                      | command            | 0                  |
    cmd_1                           | command            | 1                  |
    target_current_0                | command            | 0                  | A
    q1 [grad]                       | position           | 1                  | grad
    j1 effort [%]                   | effort             | j1                 | %
    time                            |
    t                               |
    robot_mode                      |
    quality                         |
    actual_TCP_pose_0               |
    joint_temperatures_0            |
    target_qdd_0                    |
    j1_pos_ticks                    |
    battery                         |
    dtau_J[0]                       |
    theta1_ddot                     |
    q1_ref                          |
    q_acc_1                         |
    tau_ext_1                       |
    /a/b_state/motor_state/name[2]  |
    /joint_states/pan/position      | position | pan |
    /left/joint_states/position/pan | position | pan |
    left/arm/joint_states/q[0]      | position | 0 |
"""


def test_a_name_says_quantity_joint_and_unit():
    for line in NAMES.strip().splitlines():
        head, *expected = (cell.strip() for cell in line.split('|'))
        column = parse(head)
        found = [column.key, column.joint, column.unit] if column else ['']
        assert found == expected, head
    assert not parse('')


def test_torques_precede_currents_and_what_is_measured_what_is_not():
    order = 'tau_1', 'actual_current_1', 'target_moment_1'
    ranks = [parse(head).rank for head in order]
    assert ranks == sorted({*ranks})
    assert parse('actual_q_1').rank < parse('q_1').rank < parse('theta_1').rank  # of the motor


def test_counted_joints_are_the_same_however_they_are_written():
    for head in ('joint1_tau', 'J1_tau', 'joint_01_tau', 'axis 1_tau', 'tau_J[1]', 'a1_tau'):
        assert parse(head).label == '1', head
    assert parse('panda_joint1_tau').label == 'panda_joint1'
