# SPDX-License-Identifier: Apache-2.0
"""Find the topics of one robot in a bag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from robot_dynamics_ros.errors import RecordingError, UnknownNameError

STATE = 'sensor_msgs/msg/JointState'
ARRAY = 'std_msgs/msg/Float64MultiArray'
SINGLE = 'std_msgs/msg/Float64'
TEXT = 'std_msgs/msg/String'
TRAJECTORY = 'trajectory_msgs/msg/JointTrajectory'
WRENCH = 'geometry_msgs/msg/WrenchStamped'
SWITCH = 'std_msgs/msg/Bool'

#: Message types of the streams to a controller, by the last part of the topic name.
STREAMS = {
    'target_joint': STATE,
    'target_pose': 'geometry_msgs/msg/PoseStamped',
    'target_wrench': WRENCH,
    'measured_wrench': WRENCH,
    'enable_guiding': SWITCH,
    'speed_scaling_input': 'control_msgs/msg/SpeedScalingFactor',
}

# Last parts of the names of JointState topics that are not measured states.
_NOT_MEASURED = (
    *('reference', 'error', 'desired', 'command', 'commands', 'joint_commands'),
    'target_joint',
)


@dataclass(frozen=True)
class Topics:
    """The topics of one robot; empty if not in the bag.

    Attributes:
        states: Measured joint states.
        commands: Efforts of all joints in one message.
        joint_commands: Topics of the effort of single joints, by joint, if used.
        reference: Joint references.
        description: URDF text.
        parameters: Parameters of the controller, YAML text.
        trajectory: Trajectories sent to the controller.
        status: Responses of the controller to trajectories.
        streams: Streams to the controller: key of ``STREAMS`` by topic.
    """

    states: str
    commands: str = ''
    joint_commands: Mapping[str, str] = field(default_factory=dict)
    reference: str = ''
    description: str = ''
    parameters: str = ''
    trajectory: str = ''
    status: str = ''
    streams: Mapping[str, str] = field(default_factory=dict)

    def of_states(self) -> tuple[str, ...]:
        """Return the topics with about one message per state."""
        named = (self.states, self.commands, self.reference, *self.joint_commands.values())
        return tuple(topic for topic in named if topic)


def choose_topics(
    available: Mapping[str, str],
    *,
    namespace: str = '',
    states: str = '',
    commands: str = '',
    reference: str = '',
    description: str = '',
) -> Topics:
    """Choose the topics of one robot.

    Args:
        available: Message type by topic.
        namespace: Namespace of the robot, required if the bag has several; '/' is the root.
        states: Topic of the states; empty to find it by type and name.
        commands: Topic of the efforts; empty to find it.
        reference: Topic of the references; empty to find it.
        description: Topic of the description; empty to find it.

    Raises:
        RecordingError: There is no candidate for the states, or several for one of the topics; the
            message lists them.
        UnknownNameError: A topic that was named is not in the bag; the message lists all topics.
    """
    finder = _TopicFinder(available)
    states = finder.require(states, STATE) if states else finder.states(namespace)
    space = states.rpartition('/')[0] if not namespace else '/' + namespace.strip('/')
    space = space.rstrip('/')
    commands = finder.find(commands, space, ARRAY, 'effort_controller/commands')
    reference = finder.find(reference, space, STATE, 'controller/reference')
    controller = reference.rpartition('/')[0] if reference else f'{space}/controller'
    return Topics(
        states,
        commands,
        {} if commands else finder.joint_commands(space),
        reference,
        finder.require(description, TEXT) if description else finder.description(space),
        finder.existing(f'{controller}/parameters', TEXT),
        finder.existing(f'{controller}/joint_trajectory', TRAJECTORY),
        finder.existing(f'{controller}/trajectory_status', TEXT),
        {
            topic: name
            for name, kind in STREAMS.items()
            if (topic := finder.existing(f'{controller}/{name}', kind))
        },
    )


class _TopicFinder:
    """Looks topics up by type and name."""

    def __init__(self, available: Mapping[str, str]) -> None:
        self._available = available

    def require(self, topic: str, kind: str) -> str:
        """Return a topic given by name, if its type is right."""
        if topic not in self._available:
            raise UnknownNameError('topic', topic, self._available)
        if self._available[topic] != kind:
            raise RecordingError(
                f'topic {topic!r}',
                f'is of type {self._available[topic]!r}',
                f'choose one of {kind}',
            )
        return topic

    def existing(self, topic: str, kind: str) -> str:
        """Return a topic if the bag has it with the given type, else an empty string."""
        return topic if self._available.get(topic) == kind else ''

    def states(self, namespace: str) -> str:
        topics = [topic for topic in self._of(STATE) if _base_name(topic) not in _NOT_MEASURED]
        if namespace:
            space = '/' + namespace.strip('/')
            default = f'{space.rstrip("/")}/joint_states'
            if default in topics:
                return default
            topics = [topic for topic in topics if topic.startswith(space)]
        else:
            topics = [topic for topic in topics if _base_name(topic) == 'joint_states'] or topics
        if not topics:
            raise self._no_states(namespace)
        if len(topics) > 1:
            spaces = sorted({topic.rpartition('/')[0] or '/' for topic in topics})
            several = len(spaces) > 1
            what, known = ('namespace', spaces) if several else ('states topic', sorted(topics))
            raise RecordingError(
                'the bag',
                f'has several topics of joint states: {", ".join(sorted(topics))}',
                f'choose a {what}: {", ".join(known)}',
            )
        return topics[0]

    def _no_states(self, namespace: str) -> RecordingError:
        listed = ', '.join(f'{t} ({k})' for t, k in sorted(self._available.items())) or 'none'
        where = f' in namespace {namespace!r}' if namespace else ''
        return RecordingError('the bag', f'has no joint states{where}', f'its topics: {listed}')

    def joint_commands(self, space: str) -> dict[str, str]:
        topics = [topic for topic in self._of(SINGLE) if topic.startswith(f'{space}/')]
        return {t.split('/')[-2]: t for t in topics if _base_name(t) == 'cmd_force'}

    def description(self, space: str) -> str:
        topics = [topic for topic in self._of(TEXT) if _base_name(topic) == 'robot_description']
        for topic in (f'{space}/robot_description', '/robot_description'):
            if topic in topics:
                return topic
        return topics[0] if len(topics) == 1 else ''

    def find(self, given: str, space: str, kind: str, usual: str) -> str:
        """Return the topic given, else the usual one, else the only one with that ending."""
        if given:
            return self.require(given, kind)
        if topic := self.existing(f'{space}/{usual}', kind):
            return topic
        ending = _base_name(usual)
        topics = [
            topic
            for topic in self._of(kind)
            if topic.startswith(f'{space}/') and _base_name(topic) == ending
        ]
        if len(topics) > 1:
            raise RecordingError(
                'the bag', f'has several topics of {ending}: {", ".join(topics)}', 'name one'
            )
        return topics[0] if topics else ''

    def _of(self, kind: str) -> list[str]:
        return sorted(topic for topic, available in self._available.items() if available == kind)


def _base_name(topic: str) -> str:
    return topic.rpartition('/')[2]
