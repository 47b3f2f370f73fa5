# SPDX-License-Identifier: Apache-2.0
"""Build and install the package with colcon (ament_python) or pip."""

from glob import glob
from os.path import dirname
from xml.etree import ElementTree

from setuptools import find_packages, setup

NAME = 'robot_dynamics_ros'
NODES = (
    'controller',
    'simulator',
    'trajectory',
    'recorder',
    'monitor',
    'driver_emulator',
    'gazebo_robot',
    'view',
)
PACKAGE = ElementTree.parse('package.xml').getroot()

# Dependencies of each extra; requirements*.txt list the tested versions.
EXTRAS = {
    'kernels': ['llvmlite'],
    'equations': ['sympy'],
    'pinocchio': ['pin'],
    'ros': ['ros-jazzy-rclpy[fastrtps]', 'ros-jazzy-common-interfaces'],
    'sim': ['mujoco'],
    'recordings': ['rosbags', 'plotly'],
    'view': ['viser'],
    'meshes': ['trimesh'],  # glTF
    'cluster': ['distributed', 'pyarrow'],
}
TEST = [
    'setuptools',
    'pytest',
    'pytest-timeout',
    'pytest-xdist',
    'hypothesis',
    'ruff',
    'mypy',
    'types-PyYAML',
    'playwright',
    'psutil',
    'example-robot-data',
    'colcon-ros',  # with colcon-bash: builds the package as a user would
    'colcon-bash',
]
DOCS = ['mkdocs-material', 'mkdocstrings[python]', 'latex2mathml']


def shared(*folders):
    """Return the files below some folders, each with the folder it is installed to."""
    found = [file for folder in folders for file in glob(f'{folder}/**/*.*', recursive=True)]
    return [
        (f'share/{NAME}/{folder}', sorted(file for file in found if dirname(file) == folder))
        for folder in sorted({dirname(file) for file in found if '__pycache__' not in file})
    ]


setup(
    name=NAME,
    version=PACKAGE.findtext('version'),
    description=PACKAGE.findtext('description'),
    license=PACKAGE.findtext('license'),
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={
        NAME: ['py.typed'],
        f'{NAME}.recordings.report': ['*.css', '*.js'],
        f'{NAME}.viewing': ['*.js'],
    },
    python_requires='>=3.11',
    install_requires=['numpy', 'scipy', 'PyYAML', 'xacro', 'rich'],
    extras_require={**EXTRAS, 'all': sorted(sum(EXTRAS.values(), [])), 'test': TEST, 'docs': DOCS},
    zip_safe=False,
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        *shared('config', 'launch', 'urdf', 'worlds'),
    ],
    entry_points={
        'console_scripts': [
            f'robot-dynamics = {NAME}.__main__:main',
            *(f'{node} = {NAME}.ros.executables:{node}' for node in NODES),
        ],
    },
)
