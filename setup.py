# SPDX-License-Identifier: Apache-2.0
"""Build and install the package with colcon (ament_python)."""

from glob import glob
from os.path import dirname

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
)


def shared(*folders):
    """Return the files below some folders, each with the folder it is installed to."""
    found = [file for folder in folders for file in glob(f'{folder}/**/*.*', recursive=True)]
    return [
        (f'share/{NAME}/{folder}', sorted(file for file in found if dirname(file) == folder))
        for folder in sorted({dirname(file) for file in found})
    ]


setup(
    name=NAME,
    version='0.1.0',
    description='Computed torque and constraint stabilization with cross-checked dynamics.',
    license='Apache-2.0',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={NAME: ['py.typed']},
    python_requires='>=3.10',
    install_requires=['setuptools', 'numpy', 'scipy', 'PyYAML'],
    extras_require={'test': ['pytest']},
    zip_safe=False,
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        *shared('config', 'launch', 'urdf', 'worlds'),
    ],
    entry_points={
        'console_scripts': [f'{node} = {NAME}.ros.executables:{node}' for node in NODES],
    },
)
