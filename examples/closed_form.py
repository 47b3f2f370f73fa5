# SPDX-License-Identifier: Apache-2.0
"""Print the equations of motion as formulas, derived by running a recursion on symbols."""

from robot_dynamics_ros import load_robot
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.symbolic.closed_form import derive
from robot_dynamics_ros.symbolic.equations import write_latex, write_text

form = derive(load_robot(shipped_robot('scara')))
print(write_text(form, ('M', 'G')))
print(write_latex(form, ('G',)))
