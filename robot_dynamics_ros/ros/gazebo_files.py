# SPDX-License-Identifier: Apache-2.0
"""Gazebo files of any robot: bridge configuration, ros2_control parameters and description.

Also the actions of launch files that use them: server, bridge, insertion of the robot.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import starmap
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

from robot_dynamics_ros.control.topics import force_topics
from robot_dynamics_ros.description.shipped import share_directory
from robot_dynamics_ros.description.urdf import (
    Inertial,
    parse_urdf,
    parse_xml,
    read_description,
)
from robot_dynamics_ros.description.urdf_patch import JointDynamics, patch_urdf
from robot_dynamics_ros.errors import ConfigurationError, MissingDependencyError, ModelError
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.ros.gazebo_world import (
    PATIENCE_S,
    gazebo_force_topic,
    is_valid_name,
    lockstep_world,
    read_world,
    step_ns,
    temporary_file,
)

_BRIDGE_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Topics of ros_gz_bridge between Gazebo and ROS: states and clock, and one force per joint.
# Relative ROS names are in the namespace of the bridge. Queues of 1: only the newest state and
# the newest force are used. The launch files of robot_dynamics_ros generate the same.
"""
_STATES = ('sensor_msgs/msg/JointState', 'gz.msgs.Model', 'GZ_TO_ROS')
_CLOCK = ('rosgraph_msgs/msg/Clock', 'gz.msgs.Clock', 'GZ_TO_ROS')
_FORCE = ('std_msgs/msg/Float64', 'gz.msgs.Double', 'ROS_TO_GZ')
_ROS2_CONTROL = """\
# SPDX-License-Identifier: Apache-2.0
# Controllers of gz_ros2_control for the robot "{model}": a state broadcaster and an effort
# forwarder. The joint order must equal that of the controller node's parameter joints (default:
# the order of the description). JointGroupEffortController, the older name, was removed in
# Lyrical.

/**/controller_manager:
  ros__parameters:
    update_rate: 1000                        # Hz; the world's step is 1 ms
    joint_state_broadcaster:
      type: joint_state_broadcaster/JointStateBroadcaster
    effort_controller:
      type: forward_command_controller/ForwardCommandController

/**/joint_state_broadcaster:
  ros__parameters:
    joints: [{joints}]
    interfaces: [position, velocity, effort]

/**/effort_controller:
  ros__parameters:
    joints: [{joints}]
    interface_name: effort                   # {units}
"""
_FIXED_INERTIAL = """\
<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
"""
_MARGIN, _ROUNDED = 1e-6, 1e-3  # of the largest moment: errors of sdformat's solver, of files
_NO_INERTIA = 1e-15  # kg m^2: moments of a point mass are negative by rounding
_ENDLESS = 1e16  # m: SDF's number for no limit
#: What in <gazebo> acts on the motion, but is not part of the model (docs/robots.md).
_NOT_IN_MODEL = (
    'static', 'kinematic', 'gravity', 'turnGravityOff', 'dampingFactor', 'velocity_decay',
    'springStiffness', 'springReference', 'axis', 'physics', 'inertial', 'link', 'joint',
)  # fmt: skip
_ARGUMENTS = ('gazebo', 'controllers_file', 'namespace', 'initial_position')


def model_name(tree: Robot) -> str:
    """Return the model name of a robot in Gazebo: its own name, made valid in topic names."""
    return re.sub(r'\W', '_', tree.name, flags=re.ASCII) or 'robot'


Entry = dict[str, Any]


def bridge_entries(
    joints: Sequence[str], model: str, *, clock: bool = True, forces: bool = True
) -> list[Entry]:
    """Return the topics to bridge between Gazebo and ROS.

    Args:
        joints: Names of the controlled joints; empty: only the clock.
        model: Name of the robot in Gazebo.
        clock: Whether to bridge ``/clock``; only one bridge to the same Gazebo may do so.
        forces: Whether to bridge the forces, including those of joints without a drive: the
            controller needs a subscriber of each.
    """
    topic = f'/model/{model}'
    entries = [_entry('joint_states', f'{topic}/joint_state', _STATES)] if joints else []
    if clock:
        entries.append(_entry('/clock', '/clock', _CLOCK))
    for joint, name in zip(joints, force_topics(joints), strict=True) if forces else ():
        entries.append(_entry(name, gazebo_force_topic(model, joint), _FORCE))
    return entries


def bridge_text(entries: Sequence[Entry]) -> str:
    """Return the configuration of ros_gz_bridge for topics, as YAML text."""
    return _BRIDGE_HEAD + yaml.safe_dump([*entries], sort_keys=False, allow_unicode=True)


def ros2_control_text(tree: Robot) -> str:
    """Return the parameters of the controllers that gz_ros2_control runs, as YAML text."""
    sliders = (
        n
        for n, prismatic in zip(tree.joint_names, tree.joint_is_prismatic, strict=True)
        if prismatic
    )
    return _ROS2_CONTROL.format(
        model=model_name(tree),
        joints=', '.join(map(_yaml_name, tree.joint_names)),
        units='N m' + ''.join(f'; {name}: N' for name in sliders),
    )


def _entry(ros: str, gazebo: str, kind: tuple[str, str, str]) -> Entry:
    names = ('ros_topic_name', 'gz_topic_name', 'ros_type_name', 'gz_type_name', 'direction')
    queues = {'subscriber_queue': 1, 'publisher_queue': 1}
    return dict(zip(names, (ros, gazebo, *kind), strict=True)) | queues


def _yaml_name(name: str) -> str:
    """Return a name as YAML text, quoted if necessary."""
    return yaml.safe_dump([name], default_flow_style=True, allow_unicode=True, width=1000)[1:-2]


def gazebo_description(tree: Robot, mappings: Mapping[str, str]) -> str:
    """Return URDF text with the Gazebo elements that ``urdf/gazebo.xacro`` adds to shipped arms.

    Gazebo's reader (sdformat) takes a range or a velocity limit of 0 as such, refuses a joint
    without limits, and leaves out a link without a mass with all that moves on it; ``<gazebo>``
    may switch gravity off. Inertias, limits and friction are therefore written as the model has
    them, without the armature, which SDF cannot express, and on request without Coulomb friction:
    a model built from this text matches the simulation. The robot is fixed to the world. Its own
    plugins and ``<ros2_control>`` elements are removed: they would command the same joints, or
    are for the older Gazebo.

    Args:
        tree: The robot; its controlled joints are actuated.
        mappings: Arguments of ``urdf/gazebo.xacro``; others are ignored.

    Raises:
        DescriptionError: An argument is invalid.
        ConfigurationError: The robot has closed loops.
        ModelError: Gazebo would refuse, leave out or not couple a link or a joint.
    """
    refuse_loops(tree.mechanism)
    _refuse_unsupported(tree)
    dry = mappings.get('coulomb_friction') != 'false'
    terms = zip(tree.damping.tolist(), (tree.coulomb_friction * dry).tolist(), strict=True)
    dynamics = dict(zip(tree.joint_names, starmap(JointDynamics, terms), strict=True))
    inertials = _inertials(tree)
    root = parse_xml(patch_urdf(tree.xml, inertials, dynamics))
    root.attrib.pop('version', None)  # Gazebo's reader knows 1.0
    root.set('name', root.get('name') or model_name(tree))  # which it requires
    selected = {key: mappings[key] for key in _ARGUMENTS if key in mappings}
    names = {'robot': model_name(tree), 'joints': '|'.join(tree.joint_names)}
    file = share_directory() / 'urdf' / 'gazebo_parts.urdf.xacro'
    parts = parse_xml(read_description(file, selected | names).xml)
    for element in [*root.findall('ros2_control'), *root.findall('gazebo[plugin]')]:
        root.remove(element)
    _write_limits(root, tree)
    _lump_frames(root, inertials)
    _fix_to_world(root, parts)
    root.extend(part for part in parts if part.tag != 'link')
    return ElementTree.tostring(root, encoding='unicode')


def _refuse_unsupported(tree: Robot) -> None:
    """Raise ModelError for what Gazebo refuses, leaves out or does not couple."""
    for name in tree.mimic_joints:
        problem = "follows another (<mimic>), but Gazebo's engine DART would let it move freely"
        remedy = 'lock it: new_robot --mimic lock; or simulate in MuJoCo: simulation.launch.py'
        raise ModelError(f'joint {name!r}', problem, remedy)
    for kind, name in ('robot', model_name(tree)), *(('joint', x) for x in tree.joint_names):
        if not is_valid_name(name):
            problem = "has a name that Gazebo refuses: 'world', with '::', or like __name__"
            raise ModelError(f'{kind} {name!r}', problem, 'rename it')
    for link, mass in zip(tree.link_names, tree.mass, strict=True):
        if mass <= 0.0:
            problem = 'has no mass: Gazebo would leave it out, with all that moves on it'
            raise ModelError(f'link {link!r}', problem, 'give it an <inertial>, if only of 1 g')


def _inertials(tree: Robot) -> dict[str, Inertial]:
    """Return the inertias of all links that have any, with moments that Gazebo accepts.

    It refuses a body whose largest principal moment exceeds the sum of the others, or with a
    negative one, by no more than rounding: all three are increased as much as is missing.

    Raises:
        ModelError: Too much is missing for a rounded number.
    """
    links = parse_urdf(tree.xml, lambda _: None).links
    given = {link.name: link.inertial for link in links if link.inertial}
    found = {name: x for name, x in given.items() if any((x.mass, *x[2:]))}
    for link, inertia in zip(tree.link_names, tree.inertia, strict=True):
        least, middle, largest = np.linalg.eigvalsh(inertia).tolist()
        missing = max(-least, largest - least - middle) + _MARGIN * largest
        if missing > _ROUNDED * largest + _NO_INERTIA:
            moments = f'{least:.6g}, {middle:.6g} and {largest:.6g} kg m^2'
            problem = f'has principal moments of inertia {moments}, which Gazebo refuses'
            remedy = 'none may be negative, or exceed the sum of the two others'
            raise ModelError(f'link {link!r} with all that is fixed to it', problem, remedy)
        if missing > 0.0 and link in found:
            old = found[link]
            more = {key: getattr(old, key) + missing for key in ('ixx', 'iyy', 'izz')}
            found[link] = old._replace(**more)
    return found


def _write_limits(root: ElementTree.Element, tree: Robot) -> None:
    """Write the limits of the controlled joints as the model has them; velocity 0: none."""
    joints = {joint.get('name'): joint for joint in root.findall('joint')}
    limits = (tree.position_lower, tree.position_upper, tree.effort_limit, tree.velocity_limit)
    rows = zip(tree.joint_names, *(limit.tolist() for limit in limits), strict=True)
    for name, lower, upper, effort, velocity in rows:
        joint = joints[name]
        for old in joint.findall('limit'):
            joint.remove(old)
        speed = velocity if math.isfinite(velocity) else 0.0
        limit = {'effort': repr(effort), 'velocity': repr(speed)}
        if math.isfinite(lower):
            limit |= {'lower': repr(lower), 'upper': repr(upper)}
        elif joint.get('type') == 'prismatic':
            limit |= {'lower': repr(-_ENDLESS), 'upper': repr(_ENDLESS)}
        else:
            joint.set('type', 'continuous')
        ElementTree.SubElement(joint, 'limit', limit)
        for soft in joint.findall('safety_controller'):
            soft.attrib.setdefault('k_velocity', '0')  # Gazebo's reader requires it


def _lump_frames(root: ElementTree.Element, inertials: Mapping[str, Inertial]) -> None:
    """Let Gazebo lump links without inertia, and remove what is not in the model."""
    for link in root.findall('link'):
        if link.get('name') not in inertials:
            for empty in link.findall('inertial'):  # sdformat divides by the sum of masses
                link.remove(empty)
    lumped = {
        joint.get('name')
        for joint in root.findall('joint')
        if {end.get('link') for end in joint if end.tag in ('parent', 'child')} - {*inertials}
    }
    for gazebo in root.findall('gazebo'):
        for element in [*gazebo]:
            if element.tag == 'disableFixedJointLumping':  # a revolute joint between limits of 0
                element.tag = 'preserveFixedJoint'
            is_lumped = element.tag == 'preserveFixedJoint' and gazebo.get('reference') in lumped
            if is_lumped or element.tag in _NOT_IN_MODEL:
                gazebo.remove(element)


def refuse_loops(loops: str) -> None:
    """Refuse a robot with closed loops, which the description for Gazebo would leave open.

    Args:
        loops: Its mechanism file; empty without one.

    Raises:
        ConfigurationError: There is one.
    """
    if loops:
        problem = 'is for closed loops, which the model for Gazebo would leave open'
        remedy = 'simulate in MuJoCo: simulation.launch.py; or see docs/gazebo.md, Closed loops'
        raise ConfigurationError('mechanism file', problem, remedy)


def _fix_to_world(root: ElementTree.Element, parts: ElementTree.Element) -> None:
    """Fix the root to a new link ``world``, unless it has this name; what is fixed gets a mass."""
    children = {child.get('link') for child in root.iterfind('joint/child')}
    links = {link.get('name', ''): link for link in root.findall('link')}
    first = next(name for name in links if name not in children)
    if first != 'world':
        if 'world' in links:
            problem = "has Gazebo's name of what does not move, but is not the root"
            raise ModelError("link 'world'", problem, 'rename it')
        root.extend(parts.findall('link'))
        anchor = ElementTree.SubElement(root, 'joint', name='world_anchor', type='fixed')
        ElementTree.SubElement(anchor, 'parent', link='world')
        ElementTree.SubElement(anchor, 'child', link=first)
    joints, fixed = root.findall("joint[@type='fixed']"), ['world']
    ends = [[x.findall(end)[0].get('link', '') for end in ('parent', 'child')] for x in joints]
    for place in fixed:  # which grows
        fixed += [child for parent, child in ends if parent == place]
    for name in fixed[1:]:
        for inertial in links[name].findall('inertial'):
            links[name].remove(inertial)
        links[name].append(parse_xml(_FIXED_INERTIAL))


# Launch files; what they need is imported where it is used ---------------------------------------


def require_gazebo() -> None:
    """Check that Gazebo and its bridge are installed.

    Raises:
        MissingDependencyError: One is not installed; gives the apt command.
    """
    from robot_dynamics_ros.ros import launching

    launching.require_packages(['ros_gz_bridge'], 'Gazebo', 'ros_gz')
    if shutil.which('gz') is None:
        raise MissingDependencyError('the command gz', 'Gazebo', launching.apt_command('ros_gz'))


def gazebo_server(args: SimpleNamespace) -> Any:
    """Return the process of the paused Gazebo.

    Args:
        args: Launch arguments with ``world``, ``gui``, ``gz_args`` and optionally ``lockstep``.

    Raises:
        ConfigurationError: The world is not an SDF file with a world.
    """
    from launch.actions import ExecuteProcess

    from robot_dynamics_ros.ros.launching import SHUTDOWN_SECONDS

    step_ns(args.world)  # checks the file
    window = [] if args.gui else ['-s']
    lockstep = getattr(args, 'lockstep', False)
    world = str(lockstep_world(args.world)) if lockstep else args.world
    paths = [os.environ.get(name) for name in ('GZ_SIM_SYSTEM_PLUGIN_PATH', 'LD_LIBRARY_PATH')]
    return ExecuteProcess(
        cmd=['gz', 'sim', *window, *args.gz_args.split(), world],
        name='gazebo',
        output='screen',
        additional_env={'GZ_SIM_SYSTEM_PLUGIN_PATH': os.pathsep.join(filter(None, paths))},
        sigterm_timeout=str(SHUTDOWN_SECONDS),
    )


def gazebo_bridge(args: SimpleNamespace, entries: Sequence[Entry]) -> list[Any]:
    """Return the bridge node; none if there is nothing to bridge.

    Args:
        args: Launch arguments with ``namespace``.
        entries: See :func:`bridge_entries`.
    """
    from launch_ros.actions import Node

    if not entries:
        return []
    file = temporary_file('ros_gz_bridge.yaml', bridge_text(entries))
    return [
        Node(
            package='ros_gz_bridge',
            executable='parameter_bridge',
            name='gazebo_bridge',
            namespace=args.namespace,
            output='screen',
            parameters=[{'config_file': str(file)}],
            remappings=args.remappings,
        )
    ]


def insertion_node(args: SimpleNamespace, urdf: str, **parameters: Any) -> Any:
    """Return the node that inserts the robot.

    Args:
        args: Launch arguments with ``world`` and those of :func:`launching.package_node`.
        urdf: Description with its Gazebo elements.
        parameters: Further parameters of the node ``gazebo_robot``.

    Raises:
        ConfigurationError: The world's file does not exist, contains no world, or has a model of
            the robot's name.
    """
    world, model = read_world(args.world), parameters.get('model')
    if model in [one.get('name') for one in world.findall('model')]:
        problem = f'has a model {model!r}: Gazebo would not insert the robot'
        raise ConfigurationError(f'world {args.world!r}', problem, 'rename one of them')
    from robot_dynamics_ros.ros.launching import package_node

    parameters = {'world': world.get('name', ''), 'robot_description': urdf, **parameters}
    return package_node('gazebo_robot', args, parameters, end_s=2.0 * PATIENCE_S)
