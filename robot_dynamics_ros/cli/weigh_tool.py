# SPDX-License-Identifier: Apache-2.0
"""Weigh the tool on a force-torque sensor, from recordings that stand in a few poses."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from robot_dynamics_ros.cli.arguments import FORCE, RECORDING, Command, option, recording_choice
from robot_dynamics_ros.errors import RecordingError, known_name
from robot_dynamics_ros.identification.correction import commented
from robot_dynamics_ros.identification.sensor_tool import (
    SensorPose,
    ToolEstimate,
    estimate_tool,
    poses_at_rest,
)
from robot_dynamics_ros.messages import NANO, wrench_of
from robot_dynamics_ros.model import Robot
from robot_dynamics_ros.recordings.bag_jobs import find_bags
from robot_dynamics_ros.recordings.output_folder import require_free_file
from robot_dynamics_ros.recordings.reading import RobotChoice
from robot_dynamics_ros.recordings.recording_reader import RecordingReader

_WRENCH, _MEASURED = 'geometry_msgs/msg/WrenchStamped', 'measured_wrench'
#: Topics of our nodes with wrenches that no sensor measures.
_OTHERS = ('external_wrench', 'target_wrench', 'push')


def run(args: argparse.Namespace) -> int:
    """Estimate the tool, print and write it; return 0."""
    require_free_file(args.output, force=args.force)
    choice = recording_choice(args)
    poses: list[SensorPose] = []
    tree, frame = None, args.sensor
    for bag in find_bags(args.bags):
        with choice.read(bag) as reader:
            tree = tree or choice.load(reader)
            frame = _read(args.wrench, choice, reader, tree, frame, poses)
            for note in reader.notes:
                print(f'note: {bag}: {note}')
    assert tree is not None  # find_bags returns at least one
    tool = estimate_tool(tree, frame, poses)
    text, said = _text(tool, frame, len(poses))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text, encoding='utf-8')
    print(*said, f'written: {args.output}', sep='\n')
    return 0


def _read(
    topic: str,
    choice: RobotChoice,
    reader: RecordingReader,
    tree: Robot,
    frame: str,
    poses: list[SensorPose],
) -> str:
    """Append the poses of a bag; return the link of the sensor.

    Raises:
        RecordingError: The bag has no such topic, or several, or one of several links.
        UnknownNameError: The robot has no such link.
    """
    run, topic = choice.run(reader, tree), _topic(reader, topic)
    times, rows, frames = [], [], set[str]()
    for _, time, message in reader.bag.messages(topic):
        if message is None:
            continue
        times.append(time)
        rows.append(wrench_of(message))
        frames.add(message.header.frame_id)
    known = frames if not frame else {frame}
    if len(known) != 1 or '' in known:
        raise RecordingError(
            f'topic {topic!r}',
            f'is at the frames {", ".join(map(repr, sorted(known))) or "of no message"}',
            'name the link of the sensor with --sensor',
        )
    (frame,) = known
    known_name("sensor's link", frame, tree.frames)
    # By arrival: states and wrenches may be stamped by different clocks.
    start = int(run.arrival_ns[0])
    arrival, measured = ((np.array(x) - start) / NANO for x in (run.arrival_ns, times))
    wrenches = np.array(rows, dtype=float)
    poses += poses_at_rest(run.time, run.position, arrival, measured, wrenches)
    return frame


def _topic(reader: RecordingReader, given: str) -> str:
    """Return the topic of the sensor."""
    kinds = reader.bag.topics
    wrenches = [x for x, kind in kinds.items() if kind == _WRENCH and reader.bag.counts.get(x)]
    if given:
        return known_name('topic of a WrenchStamped', given, wrenches)
    ours = [x for x in wrenches if x.endswith(f'/{_MEASURED}')]
    others = [x for x in wrenches if x.rpartition('/')[2] not in _OTHERS]
    found = ours or others
    if len(found) != 1:
        problem = 'has no measured wrench'
        remedy = (
            'record the topic of the sensor; without a sensor the efforts of the joints weigh the '
            'tool: identify --payload LINK'
        )
        if found:
            problem, remedy = f'has several wrenches: {", ".join(found)}', 'choose with --wrench'
        raise RecordingError(f'bag {str(reader.bag.path)!r}', problem, remedy)
    return found[0]


def _text(tool: ToolEstimate, frame: str, poses: int) -> tuple[str, list[str]]:
    """Return the parameters of the controller as YAML, and one sentence per result."""
    digits = lambda row: [round(float(x), 6) for x in row]  # noqa: E731
    values = {
        'sensor_frame': frame,
        'sensor_tool_mass': round(float(tool.mass), 6),
        'sensor_tool_com': digits(tool.com),
        'sensor_bias': digits(tool.bias),
    }
    listed = lambda row, form: ', '.join(f'{x:{form}}' for x in row)  # noqa: E731
    force, torque = tool.residual
    said = [
        f'{frame} carries {tool.mass:.4g} ± {tool.mass_deviation:.2g} kg',
        f'centre: {listed(tool.com, ".4f")} m, deviations {listed(tool.com_deviation, ".1g")}',
        f'bias: {listed(tool.bias, ".4g")} N and N m, deviations '
        f'{listed(tool.bias_deviation, ".1g")}',
        f'{poses} poses, residuals {force:.2g} N and {torque:.2g} N m RMS',
    ]
    if not tool.mass:
        said[:2] = [f'{frame} carries nothing measurable: 0 ± {tool.mass_deviation:.2g} kg']
    comments = ('Parameters of the controller: the tool on the force-torque sensor.', *said)
    return commented(comments, {'/**': {'ros__parameters': values}}), said


COMMANDS = {
    'weigh_tool': Command(
        run,
        {
            'bags BAG': option(
                Path,
                'recordings without contact that stand for a second or more in at least three '
                'poses, with gravity in different directions of the sensor',
                nargs='+',
            ),
            '--output FILE': option(Path, 'parameters file to write', required=True),
            **FORCE,
            '--wrench TOPIC': option('', 'topic of the sensor (default: the measured wrench)'),
            '--sensor LINK': option(
                '', 'link in whose axes it measures (default: the frame_id of its messages)'
            ),
            **RECORDING,
        },
    )
}
