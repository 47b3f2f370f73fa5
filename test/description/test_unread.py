# SPDX-License-Identifier: Apache-2.0
"""What is not used of a URDF is remarked, once per cause; URDF 1.1 and 1.2 are read."""

import re

import numpy as np
import pytest
import tables
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import PinocchioOracle
from samples import world_files
from scipy.spatial.transform import Rotation
from urdf_text import follow, joint, link, numbers, robot, symmetric

from robot_dynamics_ros.control.trajectories.trajectory import check_limits
from robot_dynamics_ros.description.unread import without_effort
from robot_dynamics_ros.description.urdf import parse_xml, read_description
from robot_dynamics_ros.errors import DescriptionError, TrajectoryError
from robot_dynamics_ros.geometry.robot_shapes import collision_shapes, robot_shapes
from robot_dynamics_ros.kinematics.numeric import inverse_kinematics
from robot_dynamics_ros.model import frame_pose, load_robot
from robot_dynamics_ros.model.load import check_model
from robot_dynamics_ros.planning.motions import Quintic

I = symmetric(0.02, 0.03, 0.025)
DRIVE = '<dynamics damping="1" friction="0.5"/>'


def arm(*extra, **changes):
    """Return a two-joint arm; ``changes`` are arguments of its second joint."""
    return robot(
        'arm',
        link('base'),
        link('upper', 2.0, (0.1, 0, 0), I),
        link('lower', 1.0, (0.1, 0, 0), I),
        joint('j1', 'base', 'upper', axis=(0, 1, 0), dynamics=DRIVE),
        joint('j2', 'upper', 'lower', xyz=(0.3, 0, 0), axis=(0, 1, 0),
              **{'dynamics': DRIVE, **changes}),
        *extra,
    )  # fmt: skip


ARM = arm()


#: What is replaced by what in the text, and what is said then.
@tables.written("""
    {'revolute': 'continuous'} | joints 'j1', 'j2': limits [-3, 3] of a continuous joint; they are
    {'<axis xyz': '<axis xzy'} | joints 'j1', 'j2': <axis xzy> is not used
    {'xyz="0.3 0.0 0.0"': 'pos="0.3 0 0"'} | joint 'j2': <origin pos> is
    {'xyz="0.3 0.0 0.0" rpy': 'xyz="0.3 0 0" ypr'} | joint 'j2': <origin ypr>
    {'friction="0.5"': 'coulomb="0.5"'} | joints 'j1', 'j2': <dynamics coulomb> is not
    {'effort="100.0"': 'effort="100" jerk="3" acceleration="2"'} | joints 'j1', 'j2': <limit jerk, acceleration> is not used; <limit> has
    {'<inertial><origin xyz="0.1 0.0 0.0" rpy="0.0 0.0 0.0"/>': '<inertial><pose/>'} | links 'upper', 'lower': <inertial><pose> is not used; <inertial> has <origin>
    {'<origin xyz="0.3 0.0 0.0" rpy="0.0 0.0 0.0"/>': '<origin>0.3 0 0</origin>'} | joint 'j2': the text in <origin> is not used
    {'<mass value': '<mass unit="g" value'} | <mass unit> is not used; <mass> has
    {'<joint name="j2" type="revolute">': '<joint name="j2" type="revolute"><spring k="2"/>'} | joint 'j2': <spring> is not used
    {'<link name="upper">': '<link name="upper"><Inertial/>'} | link 'upper': <Inertial> is not used; <link> has <inertial>, <visual>
    {'</robot>': '<Joint name="x"/></robot>'} | <robot>: <Joint> is not used
    {'<joint name="j2" type="revolute">': '<joint name="j2" type="revolute"><mimic joint="j1" ratio="2"/>'} | joint 'j2': <mimic ratio> is
    {'<link name="upper">': '<link name="upper"><origin xyz="0 0 1"/>'} | link 'upper': <origin> is not used
    {'<joint name="j2" type="revolute">': '<joint name="j2" type="revolute"><origin xyz="1 0 0"/>'} | joint 'j2': has 2 <origin>
    {'<link name="base"/>': '<link name="base"><visual><geometry><cone r="1"/></geometry></visual></link>'} | link 'base': <geometry><cone> is not used; <geometry> has
    {'<link name="base"/>': '<link name="base"><collision><pose/><geometry/></collision></link>'} | link 'base': <collision><pose> is not used
    {'</robot>': '<gazebo reference="j2"><springStiffness>20</springStiffness><springReference>0.5</springReference></gazebo></robot>'} | joint 'j2': <gazebo><springStiffness><springReference> is not part
    {'</robot>': '<gazebo reference="upper"><gravity>0</gravity></gazebo></robot>'} | link 'upper': <gazebo><gravity> is not part
    {'name="arm"': 'name="arm" version="2.0"'} | <robot>: version '2.0' is
""")  # noqa: E501
def test_what_is_not_used_is_remarked_by_its_name(given, said):
    (change,) = given.items()
    text = ARM.replace(*change)
    assert text != ARM
    assert sum(bool(re.search(said, remark)) for remark in load_robot(text).remarks) == 1


def test_check_model_prints_remarks(command):
    said = command('check_model', ARM.replace('friction="0.5"', 'coulomb="0.5"')).said
    assert "joints 'j1', 'j2': <dynamics coulomb> is not" in said


IGNORED = [
    '<material name="grey"><color rgba="1 1 1 1"/></material>',
    '<transmission name="t"><joint name="j1"/></transmission>',
    '<gazebo><plugin filename="x" name="y"/></gazebo>',
    '<gazebo reference="upper"><mu1>0.2</mu1><gravity>true</gravity><gravity/></gazebo>',
    '<gazebo reference="j1"><springStiffness>0</springStiffness></gazebo>',
    '<ros2_control name="x" type="system"><joint name="j1"/></ros2_control>',
    '<sensor name="s"/>',
    '<gazebo reference="upper"><sensor:camera name="eye"/></gazebo>',  # of no declared namespace
    '<mujoco><compiler angle="radian"/></mujoco>',
    '<link name="free" xmlns:drake="http://drake.mit.edu" drake:x="1"><drake:y/>'
    '<contact><lateral_friction value="1"/></contact><origin xyz="0 0 0" rpy="-0.0 0 0.0"/></link>'
    '<joint name="fix" type="fixed" dont_collapse="true"><parent link="base"/><child link="free"/>'
    '<calibration rising="0"/><!-- a comment --></joint>',
]


@pytest.mark.parametrize('extension', IGNORED)
def test_extensions_without_effect_on_the_mechanics_are_not_remarked(extension):
    assert load_robot(ARM.replace('</robot>', f'{extension}</robot>')).remarks == ()


@pytest.mark.slow
def test_published_robots_give_a_remark_only_where_it_matters():
    """Two arms with stiffness in <dynamics>, two robots with currents, one without gravity."""
    remarks = {}
    for file in world_files():
        found = read_description(file.locate(), None, lambda fault: None).remarks
        if found:
            remarks[file.name] = [remark.problem for remark in found]
    assert {name: len(found) for name, found in remarks.items()} == dict.fromkeys(
        ('anymal-kinova.urdf', 'anymal.urdf', 'panda.urdf', 'panda_collision.urdf', 'pr2.urdf'), 1
    )
    assert remarks['panda.urdf'] == ['<dynamics D, K, mu_coulomb, mu_viscous> is not used']


# ---- quaternions (URDF 1.1) ---------------------------------------------------------------------

angles = st.floats(-3.0, 3.0)


def turned(quaternion: bool, R: Rotation) -> str:
    """Return an arm all of whose origins are turned, by quat_xyzw or by rpy."""
    key = 'quat_xyzw' if quaternion else 'rpy'
    turn = f'{key}="{numbers(R.as_quat() if quaternion else R.as_euler("xyz"))}"'
    box = '<geometry><box size="0.1 0.2 0.3"/></geometry>'
    shapes = ''.join(f'<{kind}><origin xyz="1 2 3" {turn}/>{box}</{kind}>' for kind in
                     ('visual', 'collision'))  # fmt: skip
    text = ARM.replace('rpy="0.0 0.0 0.0"', turn).replace('</inertial>', f'</inertial>{shapes}')
    return text.replace('name="arm"', 'name="arm" version="1.1"')


@pytest.mark.slow
@settings(max_examples=25)
@given(angles, angles, angles)
def test_a_quaternion_makes_the_robot_of_its_rpy_twin(a, b, c):
    """In joints, inertials, visuals and collisions, and in the text that other readers get."""
    R = Rotation.from_rotvec([a, b, c])
    found, twin = (load_robot(turned(quaternion, R)) for quaternion in (True, False))
    assert found.remarks == ()
    assert 'quat_xyzw' not in found.xml
    for name in ('R_PJ', 'p_PJ', 'com', 'inertia'):
        assert_allclose(getattr(found, name), getattr(twin, name), atol=1e-12)
    for shapes in (robot_shapes, collision_shapes):
        for one, other in zip(shapes(found.xml).shapes, shapes(twin.xml).shapes, strict=True):
            assert_allclose(one.vertices, other.vertices, atol=1e-12)
    q, oracle = np.array([0.3, -0.4]), PinocchioOracle.of(found)  # its own reader
    expected = oracle.frame_pose('lower', q)[1]
    assert_allclose(frame_pose(found, q, 'lower').p_WF, expected, atol=1e-12)


@tables.written("""
    'rpy="0 0 1" quat_xyzw="0 0 0 1"' | has both rpy and quat_xyzw
    'quat_xyzw="0 0 1"' | '0 0 1' is no quaternion
    'quat_xyzw="0 0 1 x"' | is no quaternion
    'quat_xyzw="0 0 1 inf"' | is no quaternion
    'quat_xyzw="0 0 0 0"' | give four numbers x y z w, not all zero
""")
def test_a_quaternion_that_is_none_is_refused(given, said):
    for place in ('xyz="0.3 0.0 0.0" rpy="0.0 0.0 0.0"', 'xyz="0.1 0.0 0.0" rpy="0.0 0.0 0.0"'):
        with pytest.raises(DescriptionError, match=said) as refusal:
            load_robot(ARM.replace(place, f'xyz="0 0 0" {given}', 1))
        assert '<origin' in str(refusal.value)


def test_a_quaternion_in_a_file_of_version_1_0_is_used_and_remarked():
    R = Rotation.from_rotvec([0.3, 0.2, 0.1])
    tree = load_robot(turned(True, R).replace(' version="1.1"', ''))
    assert_allclose(tree.R_PJ[1], R.as_matrix(), atol=1e-12)
    assert tree.remarks == (
        '<robot>: quat_xyzw is used; other readers ignore it in version 1.0; '
        'write version="1.1", or rpy',
    )


def test_capsules_are_shapes():
    """A capsule of radius r reaches r beyond the ends of its cylinder."""
    capsule = '<collision><geometry><capsule radius="0.05" length="0.3"/></geometry></collision>'
    text = ARM.replace('</inertial>', f'</inertial>{capsule}', 1)
    tree = load_robot(text.replace('name="arm"', 'name="arm" version="1.2"'))
    assert tree.remarks == ()
    [shape] = collision_shapes(tree.xml).shapes
    size = np.ptp(shape.vertices, axis=0)
    assert_allclose(size, [0.1, 0.1, 0.4], atol=1e-3)  # of 32 segments a circle


# ---- soft limits --------------------------------------------------------------------------------


def soft(lower, upper, kind='revolute', **more):
    attributes = f'soft_lower_limit="{lower}" soft_upper_limit="{upper}" k_velocity="9"'
    return arm(kind=kind, dynamics=f'{DRIVE}<safety_controller {attributes}/>', **more)


def test_soft_limits_bound_references_within_the_limits():
    tree = load_robot(soft(-1.0, 0.5))
    assert tree.remarks == ()
    assert tree.position_upper.tolist() == [3.0, 3.0]
    assert (tree.reference_lower.tolist(), tree.reference_upper.tolist()) == ([-3, -1], [3, 0.5])
    assert (tree.middle.tolist(), tree.sampled_range[1].tolist()) == ([0.0, -0.25], [3.0, 0.5])
    check_limits(Quintic([0, 0], [0.5, 0.5], 2.0), tree)
    with pytest.raises(TrajectoryError, match=r"'j2': is at .*; its soft limits are -1 to 0.5"):
        check_limits(Quintic([0, 0], [0.5, 0.6], 2.0), tree)
    # A joint that stands beyond them may return, as with limits.
    check_limits(Quintic([0, 0.8], [0.5, 0.4], 2.0), tree, outside=np.array([0.0, 0.3]))
    far = frame_pose(tree, np.array([0.2, 2.0]), 'lower')
    found = inverse_kinematics(tree, far.p_WF, far.R_WF, frame='lower', start=np.zeros(2))
    assert (found.converged, found.q[1] <= 0.5) == (False, True)


#: Beyond the limits; outside of them; not given, the default; crossed; of an endless joint.
@tables.rows('ends kind upper said', """
[-9, 9], revolute, 3.0, ''
[5, 9], revolute, 3.0, 'soft limits [5, 9] leave no range within the limits'
[0, 0], revolute, 3.0, ''
[1, -1], revolute, 3.0, 'soft limits [1, -1] leave no range within the limits'
[-1, 1], continuous, .inf, 'soft limits [-1, 1] of a continuous joint'
""")  # fmt: skip
def test_soft_limits_that_leave_no_range_or_add_nothing_are_none(ends, kind, upper, said):
    tree = load_robot(soft(*ends, kind))
    assert tree.reference_upper[1] == upper
    remarks = [f"joint 'j2': {said}"] * bool(said)
    assert [remark.partition(';')[0] for remark in tree.remarks] == remarks


def test_a_mimic_joint_hands_its_soft_limits_on():
    """j2 = 2 j1 within [-1, 0.5] leaves j1 [-0.5, 0.25]."""
    head, joint = soft(-1.0, 0.5).split('<joint name="j2"')
    text = f'{head}<joint name="j2"{follow(joint, "j1", 2.0)}'
    tree = load_robot(text)
    assert (tree.reference_lower.tolist(), tree.reference_upper.tolist()) == ([-0.5], [0.25])


# ---- one remark per cause -----------------------------------------------------------------------


def test_a_cause_is_remarked_once_however_many_parts_have_it():
    parts = [link('l0')]
    for k in range(9):
        parts.append(link(f'l{k + 1}', 1.0, (0.1, 0, 0), I))
        parts.append(joint(f'j{k}', f'l{k}', f'l{k + 1}', xyz=(0.4, 0, 0)))
    text = robot('chain', *parts)
    [remark] = load_robot(text).remarks
    assert remark.startswith("joints 'j0', 'j1', 'j2', 'j3', 'j4', 'j5' and 3 more: have neither")
    assert len(check_model(text).warnings) == 9  # in detail


@tables.rows(
    'first second said',
    """
'', position velocity, "joint 'j2': <ros2_control> offers no effort command (but: position, velocity)"
effort, position effort, ''
effort, '', "joint 'j2': <ros2_control> offers no effort command (but: none)"
position, position, "joints 'j1', 'j2': <ros2_control> offers no effort command (but: position)"
""",  # noqa: E501
)
def test_joints_whose_hardware_takes_no_efforts_are_named(first, second, said):
    """As of most position-controlled arms; a block of its own may have the sensors of a joint."""

    def block(name, words):
        offered = ''.join(f'<command_interface name="{word}"/>' for word in words.split())
        return f'<ros2_control><joint name="{name}">{offered}</joint></ros2_control>'

    blocks = [block('j2', second), block('j2', '')] + ([block('j1', first)] if first else [])
    root = parse_xml(arm(*blocks))
    assert without_effort(root, ['j1', 'j2']).partition('; ')[0] == said
    assert check_model(arm(*blocks)).findings == ()
