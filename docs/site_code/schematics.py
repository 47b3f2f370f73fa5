# SPDX-License-Identifier: Apache-2.0
"""Draw the block diagrams of the pages: topics, commissioning, observer, session, path."""

from __future__ import annotations

from drawing import PAPER, Drawing

from robot_dynamics_ros.control.modes import TABLE, SessionEvent, SessionMode

#: Position of each mode, px, and the law that acts in it.
_MODES = {
    'inactive': (30, 150, 'no command'),
    'deactivating': (30, 300, 'brake'),
    'holding': (360, 60, 'the selected law'),
    'following': (620, 60, 'the selected law'),
    'reacting': (620, 190, 'reaction to a contact'),
    'stopped': (360, 310, 'stop action'),
    'faulted': (620, 310, 'stop action, brakes'),
}
#: Drawn transitions: from, event, to, and the place of the word.
_TRANSITIONS = (
    ('inactive', 'activate', 'holding', 0.5, -8),
    ('holding', 'follow', 'following', 0.5, -8),
    ('following', 'rest', 'holding', 0.5, 18),
    ('following', 'contact', 'reacting', 0.5, 0),
    ('reacting', 'release', 'holding', 0.45, -8),
    ('holding', 'silence', 'stopped', 0.62, 0),
    ('stopped', 'state', 'holding', 0.5, 0),
    ('reacting', 'fault', 'faulted', 0.5, 0),
    ('holding', 'halt', 'deactivating', 0.36, -8),
    ('deactivating', 'rest', 'inactive', 0.5, 0),
    ('stopped', 'deactivate', 'inactive', 0.5, 16),
)
#: The modules from a state to its command: place, px, and functions; a test compares the trace.
PATH = {
    'ros/controller/running': (10, 30, 'RunningController._on_state', '_check_locked_joints'),
    'ros/conversions': (
        *(400, 30, 'JointStateReader.read', 'time_ns'),
        *('EffortWriter.publish', 'PreparedMessage.publish'),
    ),
    'messages': (790, 30, 'MessageBytes.take', 'stamp_ns', 'content'),
    'control/session_modes': (10, 200, 'SessionModes.update', '_process', '_handle', '_write'),
    'control/loop': (400, 200, 'ControlLoop.observe', 'tick', '_update_inputs'),
    'control/safety/state_validator': (
        *(790, 200, 'MeasuredState.take', 'StateValidator.accept', '_evaluate'),
        'Repetitions.note',
    ),
    'control/trajectories/reference_generator': (10, 360, 'ReferenceGenerator.sample'),
    'control/laws/computed_torque': (400, 360, 'ComputedTorque.effort'),
    'control/safety/shell': (790, 360, 'SafetyFilter.run'),
}
#: Arrows between them: from, to, and what passes.
_CALLS = (
    ('ros/controller/running', 'ros/conversions', 'bytes'),
    ('ros/conversions', 'messages', 'numbers'),
    ('ros/controller/running', 'control/session_modes', 'ArmState'),
    ('control/session_modes', 'control/loop', ''),
    ('control/loop', 'control/safety/state_validator', 'q, v'),
    ('control/loop', 'control/trajectories/reference_generator', 'reference'),
    ('control/loop', 'control/laws/computed_torque', 'effort'),
    ('control/loop', 'control/safety/shell', 'command'),
)
#: What a reader calls an event, where the table's name does not say it.
_WORDS = {'silence': 'no states', 'halt': 'deactivate in motion', 'release': 'resume'}


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


def stages() -> str:
    """Return the stages of commissioning an arm."""
    parts = (
        ('1 model', 'check_model:\nmasses, limits', 'no arm'),
        ('2 monitor', 'commission: signs,\nunits, order, gravity', 'nothing is commanded'),
        ('3 gravity', 'gravity\ncompensation', '30 % of the limits'),
        ('4 slow', 'the law, slow motions,\ndelay of the drive', '50 %, a quarter of the speed'),
        ('5 full', 'the motion,\nthen identification', 'all of the limits'),
    )
    drawing = Drawing(1000, 190, 'Stages of commissioning')
    for k, (name, words, limits) in enumerate(parts):
        drawing.box(12 + 198 * k, 30, 170, 88, f'*{name}\n{words}')
        drawing.text(97 + 198 * k, 142, limits, size=12)
        if k:
            drawing.arrow(198 * k - 14, 74, 198 * k + 10, 74)
    drawing.text(500, 176, 'go on only if everything is as expected; back to 2 after every change')
    return drawing.svg()


def observer() -> str:
    """Return the observer of external efforts and the detection of contacts."""
    drawing = Drawing(1000, 230, 'Observer of external efforts')
    drawing.box(12, 40, 120, 62, '*states q, v\nof two samples')
    drawing.box(12, 130, 120, 62, '*effort τ\nin between')
    drawing.box(
        200, 66, 190, 92, '*w = ID(q, v, Δv/h)\n+ J Δv/h + f(v) − τ\nmodel, rotors, friction'
    )
    drawing.box(
        440, 66, 185, 92, '*low-pass filter\nr += (1 − e^−Kh)(w − r)\nobserver_bandwidth K'
    )
    drawing.box(670, 20, 150, 62, '*dead band\nslow and fast part')
    drawing.box(670, 140, 150, 62, '*wrench\nat a frame')
    drawing.box(870, 20, 118, 62, '*contact\nreport, stop, …')
    drawing.arrow(132, 71, 198, 96)
    drawing.arrow(132, 161, 198, 130)
    drawing.arrow(390, 112, 438, 112)
    drawing.arrow(625, 96, 668, 62)
    drawing.arrow(625, 128, 668, 162)
    drawing.arrow(820, 51, 868, 51)
    drawing.text(645, 116, 'r', size=13)
    drawing.text(830, 176, '~/external_wrench', 'start', 12)
    drawing.text(532, 180, '~/external_effort', size=12)
    return drawing.svg()


def session() -> str:
    """Return the modes of a session, the laws that act in them, and the usual transitions.

    Raises:
        LookupError: A drawn transition is not in the session's table.
    """
    drawing = Drawing(860, 402, 'Modes of a session and the laws that act')
    drawing.text(430, 26, '*In each mode one law acts; the usual transitions', size=15)
    for begin, event, end, place, lift in _TRANSITIONS:
        if TABLE[SessionMode(begin)][SessionEvent(event)][0] is not SessionMode(end):
            raise LookupError(f'no transition from {begin} by {event} to {end}')
        (x1, y1), (x2, y2) = _between(begin, end)
        drawing.arrow(x1, y1, x2, y2)
        x, y = x1 + place * (x2 - x1), y1 + place * (y2 - y1) + lift
        words, anchor = _WORDS.get(event, event), 'middle' if lift else 'start'
        drawing.text(x + (0 if lift else 6), y, words, anchor, 12)
    for name, (x, y, law) in _MODES.items():
        fill = '#e3f1e5' if name in ('holding', 'following') else PAPER
        drawing.box(x, y, 180, 62, f'*{name}\n{law}', fill)
    drawing.text(
        430, 396, 'deactivation and fault act alike in all modes of an active arm', size=12
    )
    return drawing.svg()


def path() -> str:
    """Return the functions of the package between a state and its command, by module."""
    drawing = Drawing(1130, 420, 'From a state to its command: 23 functions in 9 modules')
    for begin, end, words in _CALLS:
        (x1, y1, *_), (x2, y2, *_) = PATH[begin], PATH[end]
        if y1 == y2:
            ends = (x1 + 330, y1 + 31, x2 - 2, y2 + 31)
        else:
            ends = (x1 + 165, y1 + _height(begin), x2 + 165, y2 - 2)
        drawing.arrow(*ends)
        drawing.text((ends[0] + ends[2]) / 2, (ends[1] + ends[3]) / 2 - 6, words, size=12)
    for module, (x, y, *functions) in PATH.items():
        drawing.box(x, y, 330, _height(module), '\n'.join([f'*{module}', *functions]))
    return drawing.svg()


def _height(module: str) -> float:
    return 18 * (len(PATH[module]) - 1) + 14


def _between(begin: str, end: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of an arrow between the borders of two boxes, to the right of its way."""
    (x1, y1, _), (x2, y2, _) = _MODES[begin], _MODES[end]
    dx, dy = x2 - x1, y2 - y1
    if abs(dx) < 1:  # one above the other
        side = -30 if dy < 0 else 30
        return (x1 + 90 + side, y1 + (0 if dy < 0 else 62)), (
            x2 + 90 + side,
            y2 + (62 if dy < 0 else 0),
        )
    side = 10 if dx < 0 else -10
    return (x1 + (180 if dx > 0 else 0), y1 + 31 + side), (
        x2 + (0 if dx > 0 else 180),
        y2 + 31 + side,
    )
