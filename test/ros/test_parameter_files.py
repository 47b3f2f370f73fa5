# SPDX-License-Identifier: Apache-2.0
"""An invalid parameter file or ROS argument ends a node with one clear line; 3 is a number."""

import pytest
import rclpy
import tables
import yaml
from rclpy.parameter import Parameter as Given

from robot_dynamics_ros.errors import ConfigurationError, ParameterError
from robot_dynamics_ros.parameters import Parameter
from robot_dynamics_ros.ros.executables import parameter_sections, sections_of
from robot_dynamics_ros.ros.node import declare, declare_new, set_own, values

NUMBERS = (
    Parameter('laps', 1.0, 'One.', 0.001, 1e6),
    Parameter('goal', [0.0], 'Several.', per_joint=True),
    Parameter('steps', 1, 'A count.'),
    Parameter('seconds', 1.0, 'Without an end.', 0.0),
)


@tables.rows(
    'name given taken',
    """
laps, 3, 3.0
goal, [1, -2], [1.0, -2.0]
goal, 2, [2.0]
steps, 4, 4
""",
)
def test_whole_numbers_are_numbers_at_the_start_and_later(peer, name, given, taken):
    """YAML, ``ros2 param`` and people write 3.0 as 3."""
    at_start = rclpy.create_node(
        'start', context=peer.context, parameter_overrides=[Given(name, value=given)]
    )
    declare(at_start, NUMBERS)
    later = rclpy.create_node('later', context=peer.context)
    declare(later, NUMBERS[:1])
    declare_new(later, NUMBERS[1:], 'any.')
    assert later.set_parameters_atomically([Given(name, value=given)]).successful
    with pytest.raises(ParameterError, match='from 0.001'):  # not an error of rclpy
        set_own(later, {'laps': 0.0})
    for node in (at_start, later):
        assert repr(values(node, NUMBERS)[name]) == repr(taken)  # 3 == 3.0
        assert node.get_parameter(name).type_ == Given(name, value=taken).type_
        node.destroy_node()


@tables.written("""
[laps, 0]    | must be a finite number from 0.001 to 1e+06, such as 1.0
[laps, true] | such as 1.0
[goal, all]  | give one finite number for all joints, or one per joint, such as [0.0]
[steps, 4.5] | must be a whole number, such as 1
[seconds, 1.5e+308] | must be a finite number of at least 0, such as 1.0
""")
def test_what_is_no_such_number_is_refused_with_an_example(peer, given, said):
    name, value = given
    node = rclpy.create_node(
        'start', context=peer.context, parameter_overrides=[Given(name, value=value)]
    )
    with pytest.raises(ConfigurationError, match=said) as refusal:
        declare(node, NUMBERS)
    assert refusal.value.culprit == f'parameter {name!r}'
    node.destroy_node()


@pytest.mark.parametrize('one', NUMBERS)
def test_an_empty_list_is_refused_with_what_to_give(peer, one):
    """rcl gives it no type, and rclpy says later that the parameter is not initialized."""
    words = ['--ros-args', '-p', f'{one.name}:=[]']
    node = rclpy.create_node('start', context=peer.context, cli_args=words)
    with pytest.raises(ConfigurationError, match=r"': is \[\]; .*, such as"):
        declare(node, (one,))
    node.destroy_node()


SECTIONS = """
{all}: {{ros__parameters: {{a: 1, b: 1}}}}
/left/arm: {{ros__parameters: {{a: 2}}}}
/**/arm: {{ros__parameters: {{c: 3}}}}
right: {{arm: {{ros__parameters: {{a: 4, c: 4}}}}}}
arm: {{ros__parameters: {{c: 5}}}}
/*/arm: {{ros__parameters: {{d: 6}}}}
"""


@pytest.mark.parametrize('space', ['/', '/left', '/right', '/far/left'])
@pytest.mark.parametrize('every', ['/**', '/**/*'])
def test_we_read_parameter_files_as_rcl_does(peer, tmp_path, space, every):
    """Of several values the last one in the file holds, of whatever section."""
    file = tmp_path / 'sections.yaml'
    file.write_text(SECTIONS.format(all=every))
    words = ['--ros-args', '--params-file', str(file)]
    node = rclpy.create_node(
        'arm', namespace=space, context=peer.context, cli_args=words,
        automatically_declare_parameters_from_overrides=True,
    )  # fmt: skip
    theirs = {name: node.get_parameter(name).value for name in 'abcd' if node.has_parameter(name)}
    node.destroy_node()
    ours = {}
    for found in sections_of(parameter_sections(yaml.safe_load(file.read_text())), 'arm', space):
        ours |= found
    assert ours == theirs
