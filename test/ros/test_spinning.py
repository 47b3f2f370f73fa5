# SPDX-License-Identifier: Apache-2.0
"""A node's process ends properly: last message sent, right exit code, one clear line.

What it needs for real time is obtained, or refused with the missing right.
"""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from unittest.mock import patch

import pytest
import rclpy
import tables
from rclpy.task import Future
from std_msgs.msg import String

from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.rclpy_compat import PollingExecutor, remove_unfinished_ports
from robot_dynamics_ros.ros.recorder import Recorder
from robot_dynamics_ros.ros.spinning import apply_real_time, freeze_objects
from robot_dynamics_ros.ros.view import View

# numpy starts threads when it is imported: a signal may arrive in one of them.
NODE = """
import sys
import numpy
import rclpy
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from robot_dynamics_ros.errors import ParameterError
from robot_dynamics_ros.ros.spinning import run
from robot_dynamics_ros.ros.rclpy_compat import PollingExecutor

class Speaker(Node):
    def __init__(self):
        super().__init__('speaker')
        if {executor!r} == 'polling':
            self.make_executor = PollingExecutor
        self.finished = Future()
        self.words = self.create_publisher(String, 'words', 10)
        self.create_subscription(String, 'enough', self.on_message, 10)
        self.create_timer(0.05, self.speak)

    def on_message(self, _):
        if not self.finished.done():
            self.finished.set_result(7)

    def speak(self):
        self.words.publish(String(data='word'))
        if {case!r} == 'failed':
            self.finished.set_exception(ParameterError('gain', -1.0, 'later'))
        if {case!r} == 'raised':
            raise ParameterError('gain', -1.0, 'in a callback')
        if {case!r} == 'named':
            self.create_subscription(String, 'a b', self.on_message, 10)
        if {case!r} == 'mistaken':
            raise ZeroDivisionError('a mistake in the program')

    def on_stop(self):
        assert rclpy.ok()
        self.words.publish(String(data='last word'))
        print('stopped', flush=True)

code = run(Speaker)
assert not rclpy.ok()
sys.exit(code)
"""


def start(processes, case, executor):
    return processes.start('speaker', code=NODE.format(case=case, executor=executor))


@pytest.mark.parametrize(
    ('executor', 'number'),
    [('events', signal.SIGINT), ('polling', signal.SIGTERM), ('events', signal.SIGHUP)],
)
def test_a_signal_ends_the_node_in_order_and_its_last_word_arrives(
    processes, peer, executor, number
):
    speaker, words = start(processes, '', executor), peer.collect(String, 'words')
    peer.spin_until(lambda: words, 60, 'a word')
    assert speaker.stop(number) == 0
    peer.spin_until(lambda: words[-1].data == 'last word', 20, 'the last word')
    assert speaker.output.count('stopped') == 1
    assert 'Traceback' not in speaker.output


def test_a_node_started_with_nohup_survives_its_terminal(processes, peer):
    ignore = 'import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n'
    speaker = processes.start('speaker', code=ignore + NODE.format(case='', executor='events'))
    words = peer.collect(String, 'words')
    peer.spin_until(lambda: words, 60, 'a word')
    os.kill(speaker.pid, signal.SIGHUP)
    later = len(words) + 20
    peer.spin_until(lambda: len(words) > later, 20, 'further words')
    assert 'stopped' not in speaker.output


# Python unloads its modules after the last line, and then handles no signals.
LATE = """
import os, signal, sys
from robot_dynamics_ros.ros.executables import run_executable

class Late:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)

late = Late()
sys.exit(run_executable('simulator'))
"""


def test_an_interrupt_after_the_nodes_end_changes_nothing(processes):
    node = processes.start('simulator', {'robot': 'nobody'}, code=LATE)
    assert node.wait(60) == 2
    assert 'nobody' in node.output


BEGUN = """
import os, signal, sys
from robot_dynamics_ros.ros.executables import run_executable
{before}
print('begun', flush=True)
sys.exit(run_executable('controller'))
"""
#: An interrupt between the installations of two handlers.
BETWEEN = """
original, installed = signal.signal, []
def interrupted(number, handler):
    former = original(number, handler)
    installed.append(number)
    if installed == [signal.SIGINT, signal.SIGINT]:
        os.kill(os.getpid(), signal.SIGINT)
    return former
signal.signal = interrupted
"""


@pytest.mark.parametrize('before', ['', BETWEEN], ids=['while libraries load', 'handlers'])
def test_an_early_interrupt_ends_the_node_without_a_traceback(processes, before):
    node = processes.start('controller', code=BEGUN.format(before=before))
    if not before:
        node.says('begun')
        node.stop(signal.SIGINT)
    assert node.wait(5.0) == 0, node.output
    assert 'Traceback' not in node.output


def test_a_node_that_is_finished_gives_its_exit_code(processes, peer):
    speaker, words = start(processes, '', 'polling'), peer.collect(String, 'words')
    enough = peer.publisher(String, 'enough')
    last = lambda: words and (enough.publish(String()) or words[-1].data == 'last word')  # noqa: E731
    peer.spin_until(last, 60, 'the last word')
    assert speaker.wait() == 7


@tables.rows(
    'executor case said errors',
    """
events, failed, 'error: parameter gain = -1.0 refused: later', 1
polling, raised, 'error: parameter gain = -1.0 refused: in a callback', 1
events, named, "error: node: Invalid topic name: topic name must not contain characters other than alphanumerics, '_', '~', '{', or '}': 'a b' ^; correct it", 1
polling, mistaken, 'ZeroDivisionError: a mistake in the program', 0
""",  # noqa: E501
)
def test_an_error_of_ours_is_one_line_and_a_mistake_shown_whole_after_the_orderly_end(
    processes, executor, case, said, errors
):
    speaker = start(processes, case, executor)
    assert speaker.wait(60) == 1
    lines = speaker.output.splitlines()
    assert said in lines
    assert sum(line.startswith('error: ') for line in lines) == errors
    assert 'stopped' in lines
    assert ('Traceback (most recent call last):' in lines) == (not errors)


@pytest.mark.parametrize('node_class', [Recorder, View])
def test_an_executor_keeps_nothing_of_the_messages_that_it_served(peer, node_class):
    executor = node_class.make_executor(context=peer.context)
    node, enough = rclpy.create_node('served', context=peer.context), Future()
    ticks = iter(range(50))
    node.create_timer(1e-3, lambda: next(ticks, None) is None and enough.set_result(True))
    executor.add_node(node)
    with patch.object(enough, 'add_done_callback', wraps=enough.add_done_callback) as waiting:
        executor.spin_until_future_complete(enough, timeout_sec=60.0)
    executor.remove_node(node)
    node.destroy_node()
    assert enough.done()
    assert waiting.call_count <= 1


def test_a_polling_executor_that_spins_polls_whatever_rclpy_calls_a_spin(peer):
    executor = PollingExecutor(context=peer.context)
    node, enough, polls = rclpy.create_node('polled', context=peer.context), Future(), []
    node.poll = lambda: polls.append(1) or len(polls) < 3 or enough.set_result(True)
    executor.add_node(node)
    executor.spin_until_future_complete(enough, timeout_sec=20.0)
    assert enough.done()
    node.destroy_node()


def test_the_controller_imports_no_reader_of_recordings():
    code = 'import sys, robot_dynamics_ros.ros.controller.node as _; print(*sys.modules)'
    loaded = subprocess.check_output([sys.executable, '-c', code], text=True).split()
    assert [name for name in loaded if 'recordings' in name or 'sqlite' in name] == []


# Contents of the shared memory of a port at which Fast DDS waits for its creator for ever.
@pytest.mark.parametrize('content', [b'', bytes(52400), b'\1' + bytes(52399)], ids=len)
def test_a_process_killed_while_it_created_its_port_holds_up_no_later_node(processes, content):
    port = Path(f'/dev/shm/fastrtps_port{7400 + 250 * processes.domain + 11}')  # participant 0
    port.write_bytes(content)
    os.utime(port, (0.0, 0.0))
    node = start(processes, 'failed', 'events')
    # Another test may have removed the port already, so only the end is certain.
    assert node.wait() == 1, node.output


def test_a_port_in_use_or_being_created_is_kept(processes, peer):
    port = Path(f'/dev/shm/fastrtps_port{7400 + 250 * processes.domain + 199}')
    port.touch()
    creator = threading.Timer(0.3, port.write_bytes, [b'\2\0\0\0'])
    creator.start()
    try:
        assert str(port) not in remove_unfinished_ports()
        assert port.exists()
    finally:
        creator.join()
        port.unlink()


class Ring:
    """References itself, so that only garbage collection deletes it."""

    def __init__(self):
        self.itself = self


def test_garbage_collection_spares_what_stays_and_no_more():
    gc.disable()
    try:
        ring = Ring()
        freeze_objects()
        assert gc.get_freeze_count() > 1000
        alive, ring = weakref.ref(ring), None
        gc.collect()
        assert alive() is not None, 'it was looked through'
        freeze_objects()
        assert alive() is None, 'what a node was made of before is never freed'
    finally:
        gc.unfreeze()
        gc.enable()


# Priority, processors and locked memory --------------------------------------------------------

NOBODY = 65534
#: Requests them in a process without rights and with limits of zero.
ASKING = """
import os, resource, sys
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.ros.spinning import apply_real_time
for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):
    resource.setrlimit(limit, (0, 0))
if os.getuid() == 0:
    os.setuid({nobody})
try:
    apply_real_time({arguments})
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ('arguments', 'named'),
    [
        ('50, [-1], False', ['thread_priority', 'rtprio 50']),
        ('0, [-1], True', ['lock_memory', 'memlock unlimited']),
        ('0, [-1], False', []),
    ],
)
def test_without_the_right_the_refusal_names_parameter_and_right(arguments, named):
    """For the user nobody; the defaults ask for nothing."""
    code = ASKING.format(nobody=NOBODY, arguments=arguments)
    said = subprocess.check_output([sys.executable, '-c', code], text=True)
    assert [word in said for word in named] == [True] * len(named)
    assert bool(said) == bool(named)


def test_the_thread_runs_where_it_is_told_to_but_not_on_processors_that_do_not_exist():
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ConfigurationError, match=f'may use {min(allowed)}'):
        apply_real_time(0, [4000], False)
    assert os.sched_getaffinity(0) == allowed
    try:
        apply_real_time(0, [min(allowed)], False)
        assert os.sched_getaffinity(0) == {min(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)
