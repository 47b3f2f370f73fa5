# SPDX-License-Identifier: Apache-2.0
"""Worlds, descriptions for Gazebo and bridge topics are consistent with the controller.

Read as text: neither ROS nor Gazebo is needed.
"""

import contextlib
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pinocchio
import pytest
import tables
import urdf_text
import yaml
from checkout import ROOT
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from urdf_text import joint, link, symmetric

from robot_dynamics_ros.control.setup import PARAMETERS
from robot_dynamics_ros.description.urdf import parse_xml, read_description
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.ros import gazebo_files
from robot_dynamics_ros.ros.gazebo_files import (
    bridge_entries,
    bridge_text,
    gazebo_description,
)
from robot_dynamics_ros.ros.gazebo_robot import in_sdf_terms
from robot_dynamics_ros.ros.gazebo_world import lockstep_world, step_ns

with contextlib.suppress(ImportError):  # Gazebo's own reader, if it is there
    import sdformat  # noqa: F401

JOINTS = [f'joint{i}' for i in range(1, 5)]
LINKAGE = ['lower_arm_joint', 'upper_arm_joint', 'crank_joint', 'rod_joint']
WORLDS = sorted((ROOT / 'worlds').glob('*.sdf'))
JOINT_STATES = 'gz::sim::systems::JointStatePublisher'
JOINT_FORCE = 'gz::sim::systems::ApplyJointForce'
SYSTEMS = {'Physics', 'UserCommands', 'SceneBroadcaster'}
PHYSICS = 'max_step_size', 'real_time_factor', 'dart/solver/solver_type'
TRIGGERED = 'gz::sim::systems::TriggeredPublisher'

each_arm = pytest.mark.parametrize('robot', ['scara', 'four_dof'])
NATIVE = {'gazebo': 'native'}


def urdf(robot: str, **mappings: str) -> ElementTree.Element:
    path = ROOT / 'urdf' / f'{robot}.urdf.xacro'
    return ElementTree.fromstring(read_description(path, mappings).xml)


def plugins(robot: ElementTree.Element) -> dict[str, list[ElementTree.Element]]:
    found: dict[str, list[ElementTree.Element]] = {}
    for plugin in robot.iter('plugin'):
        found.setdefault(plugin.get('name', ''), []).append(plugin)
    return found


def world_of(path: object) -> ElementTree.Element:
    return next(ElementTree.parse(path).iter('world'))


# Worlds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('path', WORLDS, ids=lambda path: path.stem)
def test_a_world_is_as_the_controller_needs_it_and_answers_marks_in_lockstep(path):
    plain, world = world_of(path), world_of(lockstep_world(str(path)))
    gravity = next(one.default for one in PARAMETERS if one.name == 'gravity')
    assert [float(word) for word in plain.findtext('gravity').split()] == gravity
    physics = plain.find('physics')
    assert {physics.get('type'), *map(physics.findtext, PHYSICS)} == {
        'dart', '0.001', '1',
        # For closed loops the solver that takes dependent conditions.
        'pgs' if path.stem == 'four_bar' else None,
    }  # fmt: skip
    assert {plugin.get('name').rpartition(':')[2] for plugin in plain.iter('plugin')} == SYSTEMS
    assert step_ns(str(path)) == 1_000_000
    (answering,) = (plugin for plugin in world if plugin.get('name') == TRIGGERED)
    messages = [(e.tag, e.get('type')) for e in answering]
    assert messages == [('input', 'gz.msgs.Empty'), ('output', 'gz.msgs.Empty')]
    assert len({e.get('topic') for e in answering}) == 2
    assert [e.tag for e in world if e is not answering] == [e.tag for e in plain]


@tables.rows(
    'content problem',
    """
null, is not a file
'name: arm', malformed XML
'<sdf version="1.9"><model name="a"/></sdf>', has no <world>
'<sdf><world name="a"><physics><max_step_size>1 ms</max_step_size></physics></world></sdf>', has a max_step_size of '1 ms'
'<sdf><world name="a"><physics><max_step_size>inf</max_step_size></physics></world></sdf>', has a max_step_size of 'inf'
'<sdf><world name="a"><physics><max_step_size>0</max_step_size></physics></world></sdf>', has a max_step_size of '0'
""",  # noqa: E501
)
def test_a_world_that_is_none_is_named_before_gazebo_is_started(tmp_path, content, problem):
    file = tmp_path / 'arm.sdf'
    if content:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match=problem) as refused:
        step_ns(str(file))
    assert f"{file}'"[-30:] in str(refused.value)  # messages shorten long paths


# Descriptions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(('robot', 'prefix'), [('scara', 'left_'), ('parallelogram', '')])
def test_the_native_description_publishes_all_joints_and_drives_the_driven(robot, prefix):
    """By the topics of the bridge."""
    plain, found = urdf(robot), plugins(urdf(robot, **NATIVE, prefix=prefix))
    assert not plugins(plain), 'nothing unless asked'
    assert plain.find('ros2_control') is None
    (states,), forces = found[JOINT_STATES], found[JOINT_FORCE]
    joints, driven = (LINKAGE, LINKAGE[::2]) if robot == 'parallelogram' else (JOINTS, JOINTS)
    joints, driven = ([f'{prefix}{name}' for name in names] for names in (joints, driven))
    model = f'/model/{prefix}{robot}'
    assert states.findtext('topic') == f'{model}/joint_state'
    assert [name.text for name in states.iter('joint_name')] == joints
    assert [plugin.findtext('joint_name') for plugin in forces] == driven
    files = [plugin.get('filename') for plugin in (states, forces[0])]
    assert files == ['gz-sim-joint-state-publisher-system', 'gz-sim-apply-joint-force-system']
    zero, after = ([(e.get('topic'), e.text) for e in plugin] for plugin in found[TRIGGERED])
    asked, sent, done = (f'{model}/zero_forces{end}' for end in ('', '/sent', '/done'))
    zeros = [(f'{model}/joint/{name}/cmd_force', 'data: 0.0') for name in driven]
    assert zero == [(asked, None), *zeros, (sent, None)]
    assert after == [(sent, None), (done, None)], 'the answer follows the zeros'


@each_arm
def test_the_native_description_is_the_arm_without_drive_inertia_and_friction_if_wanted(robot):
    def loaded(**mappings):
        """Return the numbers of the arm but those of its drives, and those."""
        tree = load_robot(ROOT / 'urdf' / f'{robot}.urdf.xacro', mappings=mappings)
        numbers = {x: getattr(tree, x) for x in (
            'parent', 'mass', 'com', 'inertia', 'axis', 'p_PJ', 'R_PJ', 'position_lower',
            'position_upper', 'velocity_limit', 'effort_limit', 'damping')}  # fmt: skip
        return numbers, tree.armature, tree.coulomb_friction

    arm, armature, friction = loaded()
    simulated, none, same = loaded(**NATIVE)
    assert_equal(simulated, arm)
    assert armature.all()
    assert not none.any()
    assert_array_equal(same, friction)
    assert friction.any()
    without, _, zero = loaded(**NATIVE, coulomb_friction='false')
    assert_equal(without, arm)
    assert not zero.any()


@each_arm
def test_through_ros2_control_every_joint_takes_effort_only_and_starts_where_it_is_told(robot):
    given = {'controllers_file': '/some/where.yaml', 'initial_position': '0.1 -0.2 0.3 0.4'}
    found = urdf(robot, gazebo='ros2_control', namespace='left', **given)
    control = found.find('ros2_control')
    assert control.findtext('hardware/plugin') == 'gz_ros2_control/GazeboSimSystem'
    rows = [
        [x.get('name') for x in (one, *one) if x.tag != 'param']
        + [x.text for x in one.iter('param') if x.get('name') == 'initial_value']
        for one in control.iter('joint')
    ]
    starts = given['initial_position'].split()
    every = ['effort', 'position', 'velocity', 'effort']
    assert rows == [[name, *every, x] for name, x in zip(JOINTS, starts, strict=True)]
    (plugin,) = plugins(found)['gz_ros2_control::GazeboSimROS2ControlPlugin']
    assert plugin.get('filename') == 'libgz_ros2_control-system.so'
    assert [*map(plugin.findtext, ('parameters', 'hold_joints'))] == ['/some/where.yaml', 'true']
    assert not plugins(found).keys() & {JOINT_STATES, JOINT_FORCE}


@each_arm
def test_a_prefixed_arm_is_tied_to_the_world_of_gazebo(robot):
    joints, link = urdf(robot, **NATIVE, prefix='left_').findall('joint'), 'left_base_link'
    parents = {x.find('child').get('link'): x.find('parent').get('link') for x in joints}
    while link in parents:
        link = parents[link]
    assert link == 'world'


def test_the_loop_closes_where_both_ends_meet_at_zero():
    """The pin rotates about the rod's end and is welded to the upper arm, posed as at q = 0."""
    found = urdf('parallelogram', **NATIVE)
    (weld,) = plugins(found)['gz::sim::systems::DetachableJoint']
    assert weld.findtext('parent_link') == 'upper_arm'
    assert (weld.findtext('child_model'), weld.findtext('child_link')) == ('__model__', 'pin')
    model = pinocchio.buildModelFromXML(ElementTree.tostring(found, encoding='unicode'))
    data = model.createData()
    pinocchio.framesForwardKinematics(model, data, pinocchio.neutral(model))
    points = {name: data.oMf[model.getFrameId(name)].translation for name in ('pin', 'arm_pin')}
    # 1e-12 m: rounding of a few rotations by a quarter turn.
    assert_allclose(points['pin'], points['arm_pin'], atol=1e-12)
    assert model.inertias[model.getJointId('pin_joint')].mass == 0.001


MASSLESS = """<robot name="pole"><link name="{root}"/><link name="base link"/><link name="rod">
  <inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
</link>
<joint name="mount" type="fixed"><parent link="{root}"/><child link="base link"/></joint>
<joint name="pin" type="revolute"><parent link="base link"/><child link="rod"/><axis xyz="0 1 0"/>
  <limit lower="-1" upper="1" effort="9" velocity="9"/></joint></robot>"""


@pytest.mark.parametrize('root', ['world', 'stand'])
def test_a_link_fixed_to_the_world_has_a_mass_without_which_gazebo_drops_what_moves_on_it(root):
    """Also one that is fixed to such a link: with preserveFixedJoint Gazebo lumps no masses."""
    robot = load_robot(MASSLESS.format(root=root))
    text = gazebo_description(robot, NATIVE)
    found = ElementTree.fromstring(text)
    masses = {x.get('name'): x.findall('inertial/mass') for x in found.iter('link')}
    assert not masses.pop('world')
    assert all(float(mass.get('value')) > 0.0 for (mass,) in masses.values())
    model = pinocchio.buildModelFromXML(text)
    assert [model.names[1], model.inertias[1].mass, model.nq] == ['pin', 2.0, 1]


def arm(*more: str, last: str = '', turn: str = '', attributes: str = '') -> str:
    """An arm that turns and lifts, each link of 1 kg and 1 kg m^2, with further elements."""
    last = last or link('upper', 1.0, (0, 0, 0.1), np.eye(3))
    turn = turn or joint('turn', 'base', 'lower')
    lower = link('lower', 1.0, (0, 0, 0.1), np.eye(3))
    lift = joint('lift', 'lower', 'upper', axis=(0, 1, 0), dynamics='<dynamics armature="0.1"/>')
    elements = ''.join((link('base'), lower, last, turn, lift, *more))
    return f'<robot name="arm" {attributes}>{elements}</robot>'


def in_gazebo(text: str, **options: object) -> ElementTree.Element:
    """Return the description for Gazebo; urdfdom, from which sdformat's reader is, accepts it."""
    urdf = gazebo_description(load_robot(text, **options), NATIVE)
    model = pinocchio.buildModelFromXML(urdf)
    terms = in_sdf_terms(urdf)
    if sdf := sys.modules.get('sdformat'):
        root = sdf.Root()
        root.load_sdf_string(terms)
        names = {root.model().joint_by_index(i).name() for i in range(root.model().joint_count())}
        assert {*model.names[1:]} <= names, 'Gazebo left a joint out'
    return parse_xml(urdf)  # which takes an undeclared prefix


EMPTY = '<inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/>'
FRAMES = (link('flange'), f'<link name="frame">{EMPTY}</inertial></link>',
          joint('f1', 'upper', 'flange', 'fixed'), joint('f2', 'flange', 'frame', 'fixed'),
          link('tool', 2.0, (0, 0, 0), np.eye(3)), joint('f3', 'frame', 'tool', 'fixed'),
          joint('f4', 'tool', 'tip', 'fixed'), link('tip', 1.0, (0, 0, 0), np.eye(3)),
          link('jaw', 1.0, (0, 0, 0), np.eye(3)), joint('grip', 'frame', 'jaw'))  # fmt: skip


@pytest.mark.parametrize('tag', ['preserveFixedJoint', 'disableFixedJointLumping'])
@pytest.mark.parametrize('massless', [False, True])
def test_a_link_without_inertia_is_lumped_also_where_a_fixed_joint_is_preserved(tag, massless):
    """sdformat leaves such a link out, with all that moves on it; a mass of 0 makes it NaN."""
    keep = [f'<gazebo reference="f{i}"><{tag}>true</{tag}></gazebo>' for i in (1, 2, 3, 4)]
    found = in_gazebo(arm(*FRAMES, *keep, last=link('upper') if massless else ''))
    kept = found.findall('gazebo/preserveFixedJoint/..')
    assert [gazebo.get('reference') for gazebo in kept] == ['f4'], 'between two masses'
    assert not found.findall('gazebo/disableFixedJointLumping'), 'a soft joint, not a rigid one'
    heavy = [x.get('name') for x in found.findall('link/inertial/..')]
    assert heavy == ['base', 'lower', *['upper'][massless:], 'tool', 'tip', 'jaw']


@tables.rows(
    'limit limits',
    """
lower="-1" upper="2" effort="5" velocity="0", [-1.0, 2.0, 5.0, .inf]
lower="0" upper="0" effort="0" velocity="3",  [-.inf, .inf, 7.0, 3.0]
velocity="3",                                 [-.inf, .inf, 7.0, 3.0]
lower="2" upper="-1" effort="5" velocity="3", [-1.0, 2.0, 5.0, 3.0]
""",
)
def test_the_limits_in_gazebo_are_those_of_the_model(limit, limits):
    """A range or a velocity of 0 holds the joint there, an effort of 0 takes its drive."""
    turn = joint('turn', 'base', 'lower').replace(
        '<limit lower="-3.0" upper="3.0" velocity="10.0" effort="100.0"/>', f'<limit {limit}/>'
    )
    assert limit in turn
    text = ElementTree.tostring(in_gazebo(arm(turn=turn), effort_limit=7.0), encoding='unicode')
    again = load_robot(text)
    read = again.position_lower, again.position_upper, again.effort_limit, again.velocity_limit
    assert [values[0] for values in read] == limits
    (written,) = ElementTree.fromstring(in_sdf_terms(text)).findall("joint[@name='turn']/limit")
    speed = float(written.get('velocity'))
    assert speed == limits[3] if np.isfinite(limits[3]) else speed < 0.0, 'negative: none in SDF'


def test_what_gazebo_alone_would_know_of_the_motion_is_removed_and_the_colour_is_kept():
    element = '<gazebo reference="upper">{}</gazebo>'.format
    found = in_gazebo(arm(
        '<gazebo><static>true</static></gazebo>',
        element('<turnGravityOff>true</turnGravityOff>'),
        element('<gravity>0</gravity>'),
        element('<kinematic>true</kinematic>'),
        element('<dampingFactor>0.5</dampingFactor>'),
        '<gazebo reference="lift"><springStiffness>9</springStiffness></gazebo>',
        element('<material>Gazebo/Red</material>'),
    ))  # fmt: skip
    left = [child.tag for gazebo in found.findall('gazebo') for child in gazebo]
    assert [tag for tag in left if tag != 'plugin'] == ['material']


def test_files_that_urdfdom_refuses_are_rewritten():
    """A version other than 1.0, soft limits without their gain, <dynamics> with armature alone.

    Also a robot without a name, and a prefix of XML that nothing declares.
    """
    turn = joint('turn', 'base', 'lower', dynamics='<safety_controller soft_lower_limit="-1"/>')
    text = arm(turn=turn, attributes='version="1.2"')
    with pytest.raises(ValueError, match='URDF'):
        pinocchio.buildModelFromXML(text)
    in_gazebo(text)
    found = in_gazebo(arm('<gazebo><x:y/></gazebo>').replace('name="arm"', '', 1))
    assert found.get('name') == 'robot'


@pytest.mark.parametrize('moments', [[0.5, 0.5, 1.0002], [0.5, 0.5, 1.0], [-1e-20, -1e-20, 0.0]])
def test_moments_that_miss_the_triangle_inequality_by_rounding_are_completed(moments):
    """Of a plate and of a point; sdformat tolerates 1e-15, but its own moments are less exact."""
    found = in_gazebo(arm(last=link('upper', 1.0, (0, 0, 0.1), np.diag(moments))))
    (inertia,) = found.findall("link[@name='upper']/inertial/inertia")
    written = [float(inertia.get(key)) for key in ('ixx', 'iyy', 'izz')]
    assert sum(written) - 2.0 * max(written) >= (1e-7 if moments[2] else 0.0)
    assert min(written) >= 0.0
    assert_allclose(written, moments, rtol=5e-4, atol=1e-18)


def test_names_that_gazebo_refuses_are_replaced_where_it_alone_reads_them():
    """A link named like a joint, frames of lumped joints, and reserved names."""
    text = arm(
        link('__tool__', 1.0, (0, 0, 0), np.eye(3)),
        joint('upper', 'upper', '__tool__', 'fixed'),
        link('a::b'),
        joint('lift-', 'upper', 'a::b', 'fixed'),
        '<gazebo reference="upper"><preserveFixedJoint>true</preserveFixedJoint></gazebo>',
        '<gazebo reference="lift"><material>Gazebo/Red</material></gazebo>',
    )
    text = text.replace('link="upper"', 'link="lift"')
    text = text.replace('<link name="upper"', '<link name="lift"')
    found = ElementTree.fromstring(in_sdf_terms(text))
    names = [x.get('name') for x in (*found.findall('link'), *found.findall('joint'))]
    assert names == ['base', 'lower', 'lift-', 'tool', 'a_b', 'turn', 'lift', 'upper', 'lift--']
    ends = [x.get('link') for x in found.iter() if x.tag in ('parent', 'child')]
    assert ends == ['base', 'lower', 'lower', 'lift-', 'lift-', 'tool', 'lift-', 'a_b']
    assert [x.get('reference') for x in found.findall('gazebo')] == ['upper', 'lift-']
    in_gazebo(text)


def test_sensors_whose_names_gazebo_refuses_get_others_on_links_that_may_be_lumped():
    """As in published files: a camera twice, and C++ names of drivers; its plugins keep theirs."""
    text = arm(link('eye'), joint('f', 'upper', 'eye', 'fixed'), *(
        f'<gazebo reference="{on}"><sensor name="a" type="imu">{more}</sensor></gazebo>'
        for on, more in (
            ('upper', '<api name="b::C"/>'), ('upper', ''), ('lower', ''),
            ('eye', '<plugin name="d::E" filename="e"/>'),
        )
    ))  # fmt: skip
    in_gazebo(text)
    found = ElementTree.fromstring(in_sdf_terms(text))
    assert [x.get('name') for x in found.iter('sensor')] == ['a', 'a-', 'a', 'a--']
    names = [x.get('name') for tag in ('api', 'plugin') for x in found.iter(tag)]
    assert names == ['b_C', 'd::E']


LAUNCHED = SimpleNamespace(world=str(WORLDS[0]))
ROD, FOUR_BAR = symmetric(0.1, 0.1, 0.3), ROOT / 'urdf' / 'four_bar.urdf.xacro'

test_what_gazebo_would_refuse_or_not_couple_is_named = tables.called(
    """
in_gazebo(arm(link('jaw', 1.0, (0, 0, 0), np.eye(3)), follow(joint('grip', 'upper', 'jaw'), 'lift'))) | ModelError: joint 'grip': follows another
in_gazebo(arm(turn=joint('a::b', 'base', 'lower')))   | ModelError: joint 'a::b': has a name that Gazebo
in_gazebo(arm(turn=joint('__a__', 'base', 'lower')))  | ModelError: joint '__a__': has a name that Gazebo
in_gazebo(arm(turn=joint('world', 'base', 'lower')))  | ModelError: joint 'world': has a name that Gazebo
in_gazebo(arm().replace('name="arm"', 'name="world"')) | ModelError: robot 'world': has a name that Gazebo
insertion_node(LAUNCHED, '', model='floor') | ConfigurationError: has a model 'floor': Gazebo would
in_gazebo(arm(last=link('upper', 1.0, (0, 0, 0), ROD))) | ModelError: link 'upper' ... 0.1, 0.1 and 0.3 kg m
in_gazebo(arm().replace('"lower"', '"world"'))        | ModelError: link 'world': has Gazebo's name
in_gazebo(MASSLESS.format(root='stand').replace('mass value="2"', 'mass value="0"')) | ModelError: link 'rod': has no mass: Gazebo would leave it out
in_gazebo(FOUR_BAR, loops='four_bar')                 | ConfigurationError: closed loops, which the model for Gazebo would
urdf('scara', gazebo='nonsense')                      | DescriptionError: nonsense
urdf('four_dof', coulomb_friction='nonsense')         | DescriptionError: nonsense
""",  # noqa: E501
    globals(),
    urdf_text,
    gazebo_files,
)


# Bridges -----------------------------------------------------------------------------------------


BRIDGED = yaml.safe_load("""
- {ros_topic_name: joint_states, gz_topic_name: /model/arm/joint_state, ros_type_name: sensor_msgs/msg/JointState, gz_type_name: gz.msgs.Model, direction: GZ_TO_ROS, subscriber_queue: 1, publisher_queue: 1}
- {ros_topic_name: /clock, gz_topic_name: /clock, ros_type_name: rosgraph_msgs/msg/Clock, gz_type_name: gz.msgs.Clock, direction: GZ_TO_ROS, subscriber_queue: 1, publisher_queue: 1}
- {ros_topic_name: a/cmd_force, gz_topic_name: /model/arm/joint/a/cmd_force, ros_type_name: std_msgs/msg/Float64, gz_type_name: gz.msgs.Double, direction: ROS_TO_GZ, subscriber_queue: 1, publisher_queue: 1}
""")  # noqa: E501


def test_a_bridge_carries_the_topics_of_the_description_and_one_of_several_the_clock():
    """In lockstep none carries forces."""
    states, clock, force = BRIDGED
    assert yaml.safe_load(bridge_text(bridge_entries(['a'], 'arm'))) == BRIDGED
    assert bridge_entries(['a'], 'arm', clock=False) == [states, force]
    assert bridge_entries(['a'], 'arm', forces=False) == [states, clock]
    assert bridge_entries((), '') == [clock]
    assert bridge_entries((), '', clock=False) == []
