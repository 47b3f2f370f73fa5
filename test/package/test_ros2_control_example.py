# SPDX-License-Identifier: Apache-2.0
"""The example controller without ROS: its law in C++ with generated C, and its files."""

import math
import re
import shutil
from xml.etree import ElementTree

import pytest
import yaml
from checkout import ROOT
from generated_c import SANITIZED, run
from samples import sample

from robot_dynamics_ros.symbolic.c_source import c_source, write

EXAMPLE = ROOT / 'examples' / 'ros2_control'

# Holds the SCARA with an initial error, 1e-5 s a step, and prints the error of every joint.
PROGRAM = """
#include <cstdio>
#include "computed_torque.hpp"
using namespace generated_torque_controller;

int main()
{
  Settings settings;
  settings.ramp = 0.0;
  settings.effort_limits.fill(LIMIT);
  Reference reference;
  reference.position = {0.4, 0.9, 0.1, -0.3};
  Joints q = reference.position, v{}, a{}, tau{};
  for (double & x : q) x -= 0.01;
  const double step = 1e-5;
  for (int k = 0; k < 20000; ++k) {
    if (!computed_torque(settings, k * step, reference, q, v, tau)) return 1;
    for (double x : tau) if (!(std::fabs(x) <= LIMIT)) return 2;
    arm_forward_dynamics(q.data(), v.data(), tau.data(), a.data());
    for (int i = 0; i < ARM_N; ++i) { v[i] += step * a[i]; q[i] += step * v[i]; }
  }
  for (int i = 0; i < ARM_N; ++i) printf("%.9f ", reference.position[i] - q[i]);
  const Joints kept = tau;
  q[1] = NAN;
  if (computed_torque(settings, 1.0, reference, q, v, tau) || tau != kept) return 3;
  q[1] = 0.0;
  v.fill(0.0);
  settings.ramp = 2.0;
  Joints gravity{};
  arm_gravity_forces(q.data(), gravity.data());
  if (!computed_torque(settings, 0.0, reference, q, v, tau) || tau[2] != gravity[2]) return 4;
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which('g++') is None, reason='no g++')
def test_the_error_decays_as_designed_and_nothing_bad_goes_out(tmp_path):
    outputs = ('inverse_dynamics', 'forward_dynamics', 'gravity_forces')
    write(c_source(sample('scara').tree, outputs, name='arm'), tmp_path)
    flags = [flag for flag in SANITIZED if flag != '-Wconversion']
    (tmp_path / 'main.cpp').write_text(PROGRAM.replace('LIMIT', '500.0'))
    run('gcc', '-std=c99', *SANITIZED, '-c', 'arm.c', cwd=tmp_path)
    include = ['-I.', f'-I{EXAMPLE / "src"}']
    command = ['g++', '-std=c++17', *flags, *include, 'main.cpp', 'arm.o', '-o', 'm', '-lm']
    assert run(*command, cwd=tmp_path) == ''
    errors = [float(word) for word in run('./m', cwd=tmp_path).split()]
    # Critically damped at 10 rad/s after 0.2 s; the Euler steps are 1e-4 of the time constant.
    assert errors == pytest.approx([0.01 * (1 + 2.0) * math.exp(-2.0)] * 4, rel=1e-3)


def test_the_files_of_the_package_name_each_other():
    source = (EXAMPLE / 'src' / 'torque_controller.cpp').read_text()
    plugin = ElementTree.parse(EXAMPLE / 'plugins.xml').getroot()
    (described,) = plugin
    manifest = ElementTree.parse(EXAMPLE / 'package.xml').getroot()
    package = manifest.findtext('name')
    cmake = (EXAMPLE / 'CMakeLists.txt').read_text()
    assert f'project({package} ' in cmake
    assert plugin.get('path') == package
    assert f'  {described.get("type")}, {described.get("base_class_type")})' in source
    settings = yaml.safe_load((EXAMPLE / 'config' / 'controllers.yaml').read_text())
    manager = settings['controller_manager']['ros__parameters']
    (controller,) = manager.keys() - {'update_rate'}
    assert manager[controller]['type'] == described.get('name')
    given, tree = settings[controller]['ros__parameters'], sample('scara').tree
    assert set(given) == set(re.findall(r'auto_declare<.*>\("(\w+)"', source))
    assert tuple(given['joints']) == tree.joint_names
    assert given['effort_limits'] == tree.effort_limit.tolist()
    needed = set(re.findall(r'find_package\((\w+)', cmake)) - {'ament_cmake'}
    assert needed == {element.text for element in manifest.findall('depend')}
