# SPDX-License-Identifier: Apache-2.0
"""Draw the block diagrams of the pages: topics, commissioning, observer."""

from __future__ import annotations

from drawing import Drawing


def topics() -> str:
    """Return the topics between an arm, the controller and the other nodes."""
    drawing = Drawing(860, 350, 'Topics between driver, controller and the other nodes')
    drawing.box(20, 140, 170, 90, '*driver, simulator\nor emulator\nof one arm')
    drawing.box(380, 140, 170, 90, '*controller\none command\nper state')
    drawing.box(380, 14, 170, 62, '*trajectory, MoveIt\nmotions, targets')
    drawing.box(670, 110, 170, 62, '*viewer\nin the browser')
    drawing.box(670, 200, 170, 62, '*recorder\na bag')
    drawing.box(380, 278, 170, 62, '*monitor\nmodel against efforts')
    drawing.arrow(190, 165, 378, 165)
    drawing.text(285, 157, 'joint_states', size=12)
    drawing.arrow(380, 205, 192, 205)
    drawing.text(285, 223, 'effort_controller/commands', size=12)
    drawing.arrow(465, 76, 465, 138)
    drawing.text(475, 100, '~/joint_trajectory, ~/follow_joint_trajectory,', 'start', 12)
    drawing.text(475, 118, '~/target_joint, ~/target_pose', 'start', 12)
    drawing.arrow(550, 175, 668, 145)
    drawing.arrow(550, 195, 668, 225)
    drawing.text(608, 189, '~/reference, …', size=12)
    drawing.arrow(105, 230, 378, 309)
    drawing.text(225, 292, 'joint_states', size=12)
    drawing.arrow(550, 309, 588, 309)
    drawing.text(594, 313, '~/residual, ~/gravity, …, /diagnostics', 'start', 12)
    drawing.text(755, 284, 'and the topics of the arm', size=12)
    return drawing.svg()
