# SPDX-License-Identifier: Apache-2.0
"""Imports follow the order of the subpackages; ROS and each heavy library stay in one place."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
import yaml
from checkout import ROOT

PACKAGE = ROOT / 'robot_dynamics_ros'

# An import may only refer to the same or an earlier subpackage, directly or transitively.
SUBPACKAGES = (
    'conventions',
    'errors',
    'parameters',
    'disk_cache',
    'yaml_reader',
    'spatial',
    'messages',
    'description',
    'model',
    'geometry',
    'dynamics',
    'symbolic',
    'kinematics',
    'constraints',
    'contact',
    'estimation',
    'control',
    'planning',
    'simulation',
    'recordings',
    'identification',
    'commissioning',
    'viewing',
    'ros',
    'cli',
)
# These do not import each other.
INDEPENDENT = {'estimation', 'control', 'simulation'}
# What a module must not import, even transitively.
APART = {
    'simulation.mujoco_plant': 'control.laws',
    'ros.simulator': 'control.laws',
    'ros.recorder': 'control.laws',
}
# Folders of control whose modules do not import its laws.
BELOW_LAWS = ('control/drivers/', 'control/trajectories/')
# Where a library may be imported: a file, or a folder with a slash.
ALLOWED_IN = yaml.safe_load("""
pinocchio: dynamics/pinocchio_reference.py
rosbags: recordings/bag/reader.py
plotly: recordings/report/
coal: geometry/triangles.py
hppfcl: geometry/triangles.py
mujoco: simulation/mujoco_plant.py
llvmlite: symbolic/llvm_functions.py symbolic/machine_code.py
sympy: symbolic/
viser: viewing/
websockets: viewing/server.py
""")
ROS = {'rclpy', 'launch', 'launch_ros', 'launch_testing', 'ament_index_python', 'tf2_ros'}
ROS_ENDINGS = ('_msgs', '_srvs', '_interfaces', '_actions')
# What must not be loaded by importing the mathematics.
HEAVY = ('pinocchio', 'mujoco', 'llvmlite', 'sympy', 'rosbags', 'plotly', 'viser', 'rclpy')


@cache
def imported_names(source: str) -> set[str]:
    """Return every dotted name that a source imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'relative import'
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
    return names


def private_names(source: str) -> list[str]:
    """Return the private or undocumented attributes of rclpy that a node uses."""
    names = [name for name in imported_names(source) if name.startswith('rclpy.impl')]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and re.match(r'_(?!_)|handle$', node.attr):
            owner = ast.unparse(node.value)
            names += [] if owner in ('self', 'super()', 'os') else [f'{owner}.{node.attr}']
    return names


def subpackage_of(file: str) -> str:
    """Return the subpackage of a file, such as 'dynamics/kane.py'; top modules are 'cli'."""
    first = file.split('/')[0].removesuffix('.py')
    return {'__main__': 'cli', '__init__': 'cli'}.get(first, first)


def violations(file: str, source: str) -> list[str]:
    """Return the violations by imports of a file, given its path within the package."""
    subpackage, wrong = subpackage_of(file), []
    if subpackage not in SUBPACKAGES:
        return [f'{file}: unknown subpackage {subpackage}; known: {SUBPACKAGES}']
    for name in sorted(imported_names(source)):
        top, _, rest = name.partition('.')
        target = rest.split('.')[0]
        if top == PACKAGE.name and target in SUBPACKAGES:
            if {subpackage, target} <= INDEPENDENT and subpackage != target:
                wrong.append(f'{file}: {subpackage} imports the independent {target}')
            elif SUBPACKAGES.index(target) > SUBPACKAGES.index(subpackage):
                wrong.append(f'{file}: {subpackage} imports {target}, a later subpackage')
        if top == PACKAGE.name and target not in (*SUBPACKAGES, '__version__'):
            wrong.append(f'{file}: imports {target} from the top of the package')
        if name.startswith(f'{PACKAGE.name}.control.laws') and file.startswith(BELOW_LAWS):
            wrong.append(f'{file}: imports {name}, which is built on it')
        if (top in ROS or top.endswith(ROS_ENDINGS)) and subpackage != 'ros':
            wrong.append(f'{file}: imports {top} outside ros/')
        if top == 'rclpy' and private_names(source) and file != 'ros/rclpy_compat.py':
            wrong.append(f'{file}: uses private rclpy, {private_names(source)}')
        if top in ALLOWED_IN and not any(map(file.startswith, ALLOWED_IN[top].split())):
            wrong.append(f'{file}: imports {top}, which only {ALLOWED_IN[top]} may')
    return wrong


def foreign_assignments(
    source: str, owners: str = r'(?!(self|cls|member|(self\.)?reference)$)'
) -> list[str]:
    """Return the attributes of other objects that a source sets, except those of outputs.

    These are a ``reference``, and a ``member`` under construction.

    Args:
        source: The text of a module.
        owners: Pattern of the objects whose attributes count.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        owner: ast.expr | None = None
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            owner = node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == 'setattr':
            owner = node.args[0]
        if owner is not None and re.match(owners, ast.unparse(owner)):
            found.append(ast.unparse(node))
    return found


@cache
def sources() -> dict[str, str]:
    """Return the modules of the package by their paths within it."""
    files = sorted(PACKAGE.rglob('*.py'))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text('utf-8') for path in files}


def test_imports_follow_the_order_and_libraries_stay_in_one_place():
    assert [line for item in sources().items() for line in violations(*item)] == []


#: Objects of the controller, of which no other room sets an attribute.
CONTROLLER = r'(.*\.)?(session|loop|contact|enabling|generator|limiter|validator|law)$'


def test_an_attribute_of_the_controller_is_set_by_its_own_class_only():
    wrong = {
        file: foreign_assignments(source, *[] if file.startswith('control/') else [CONTROLLER])
        for file, source in sources().items()
    }
    assert {file: found for file, found in wrong.items() if found} == {}


def test_an_assignment_to_another_object_is_seen():
    for source, found in {
        'validator.timeout = 1.0': ['validator.timeout'],
        'before, self.speed.target = 0.0, 1.0': ['self.speed.target'],
        'limiter.ticks += 1': ['limiter.ticks'],
        "setattr(law, 'external', 0)": ["setattr(law, 'external', 0)"],
        'self.timeout = limiter.rates[0]\nreference.position += 1.0': [],
    }.items():
        assert foreign_assignments(source) == found


def test_the_slope_of_the_command_after_a_discontinuity_is_decided_in_one_module():
    found = [file for file, source in sources().items() if '.soften(' in source]
    assert found == ['control/transfer.py']


def test_no_class_name_means_two_things():
    folders = (PACKAGE, ROOT / 'benchmark', ROOT / 'launch')
    texts = [path.read_text('utf-8') for folder in folders for path in folder.rglob('*.py')]
    names = Counter(re.findall(r'^ *class _*(\w+)[(:]', '\n'.join(texts), re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


@cache
def import_graph() -> dict[str, set[str]]:
    """Return what each module of the package imports of it, wherever in the file."""
    modules = {
        file.removesuffix('.py').removesuffix('/__init__').replace('/', '.'): source
        for file, source in sources().items()
    }
    graph = {}
    for module, source in modules.items():
        inside = {name.removeprefix(f'{PACKAGE.name}.') for name in imported_names(source)}
        targets = {name if name in modules else name.rpartition('.')[0] for name in inside}
        graph[module] = targets & modules.keys() - {module}
    return graph


def reached(graph: dict[str, set[str]], module: str) -> set[str]:
    """Return every module that a module imports, directly or transitively."""
    found: set[str] = set()
    pending = set(graph[module])
    while pending:
        name = pending.pop()
        found.add(name)
        pending |= graph[name] - found
    return found


def test_there_is_no_circular_import():
    graph = import_graph()
    assert [module for module in graph if module in reached(graph, module)] == []


def test_separate_parts_are_not_imported_even_transitively():
    graph = import_graph()
    found = {
        module: [name for name in reached(graph, module) if f'{name}.'.startswith(f'{other}.')]
        for module, other in APART.items()
    }
    assert found == dict.fromkeys(APART, [])


def test_the_node_of_the_controller_stays_thin():
    lines = {
        file: source.count('\n')
        for file, source in sources().items()
        if file.startswith('ros/controller/')
    }
    assert max(lines.values()) <= 250
    assert sum(count for file, count in lines.items() if 'parameter' not in file) <= 800


#: A file, its source, and the complaint.
WRONG = r"""
spatial/a.py | from robot_dynamics_ros.model import load_robot | later subpackage
model/a.py | def f():\n    import robot_dynamics_ros.dynamics.kane | later subpackage
control/a.py | from robot_dynamics_ros.simulation import plant | independent
dynamics/a.py | from sensor_msgs.msg import JointState | outside ros/
cli/a.py | import rclpy.node | outside ros/
dynamics/kane.py | import pinocchio as pin | only dynamics/pinocchio_reference.py
control/a.py | def f():\n    import sympy | only symbolic/
utils/a.py | import math | unknown subpackage
ros/a.py | import rclpy\nrclpy.node.Node().executor._guard | private rclpy
ros/a.py | from rclpy.impl import rcutils_logger | private rclpy
control/a.py | from robot_dynamics_ros import load_robot | top of the package
control/drivers/a.py | from robot_dynamics_ros.control.laws.registry import law_class | built on it
"""


@pytest.mark.parametrize('row', WRONG.strip().splitlines())
def test_a_wrong_import_is_seen(row):
    file, source, complaint = row.split(' | ')
    assert any(complaint in line for line in violations(file, source.replace('\\n', '\n')))


def test_importing_the_mathematics_loads_no_heavy_library():
    mathematics = {x.split('/')[0] for x in sources() if '/' in x} - {'ros', 'cli'}
    code = (
        f'import sys, {", ".join(f"robot_dynamics_ros.{room}" for room in sorted(mathematics))}\n'
        f'print([name for name in {HEAVY!r} if name in sys.modules])\n'
    )
    found = subprocess.run(
        [sys.executable, '-c', code], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert (found.stderr, found.stdout) == ('', '[]\n')
