# SPDX-License-Identifier: Apache-2.0
"""A stepped world as a stand-in for Gazebo, its bridge and its Python bindings.

What is real here: the messages in order over one connection, forces that act only once they were
handled, and late. The arm is MuJoCo's.
"""

import json
from pathlib import Path

import numpy as np
from gz_stand_in import Gazebo
from launches import Launches

# Gazebo's transport over a socket: one connection for each node, lines of JSON.
_TRANSPORT = """
import json, os, socket, threading, time

class NodeOptions:
    partition = ''

class Node:
    def __init__(self, options=None):
        while not os.path.exists(os.environ['STEPPED_STAND_IN']):
            time.sleep(0.05)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ['STEPPED_STAND_IN'])
        self._lines, self._callbacks = self._socket.makefile('r'), {}
        self._lock, self._replies = threading.Lock(), threading.Semaphore(0)
        threading.Thread(target=self._receive, daemon=True).start()

    def send(self, *line):
        with self._lock:
            self._socket.sendall((json.dumps(line) + '\\n').encode())

    def advertise(self, topic, kind):
        return Publisher(self, topic)

    def subscribe(self, kind, topic, callback):
        self._callbacks[topic] = kind, callback
        self.send('subscribe', topic, {})
        return True

    def unsubscribe(self, topic):
        self._callbacks.pop(topic)

    def request(self, service, request, kind, reply, timeout):
        self.send('request', service, vars(request))
        answered = self._replies.acquire(timeout=1e-3 * timeout)
        return answered, reply(data=answered)

    def _receive(self):
        for line in self._lines:
            word, name = json.loads(line)
            if word == 'reply':
                self._replies.release()
            elif name in self._callbacks:
                kind, callback = self._callbacks[name]
                callback(kind())

class Publisher:
    def __init__(self, node, topic):
        self._node, self._topic = node, topic

    def has_connections(self):
        return True

    def publish(self, message):
        self._node.send('publish', self._topic, vars(message))
"""
_MESSAGE = """
class {name}:
    def __init__(self, **fields):
        vars(self).update(fields)
"""
# The world; runs as the executable of the bridge, and publishes its states and time.
_WORLD = """
import json, os, random, socket, threading, time
import numpy as np, rclpy
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

MARK, REPLY = '/robot_dynamics_ros/mark', '/robot_dynamics_ros/heard'
rclpy.init()
node = rclpy.create_node('gazebo_bridge')
states = node.create_publisher(JointState, 'joint_states', QoSProfile(depth=1))
clock = node.create_publisher(Clock, '/clock', QoSProfile(depth=1))
tree = load_robot(shipped_robot('scara'))
plant = MujocoPlant(tree)
plant.reset(np.zeros(4), np.zeros(4))
lock, random, listeners = threading.Lock(), random.Random(1), []
forces, stamp = dict.fromkeys(tree.joint_names, 0.0), 0

def tell():
    q, v = np.zeros(4), np.zeros(4)
    plant.read(q, v)
    message = JointState(name=list(tree.joint_names), position=q.tolist(), velocity=v.tolist())
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
    states.publish(message)
    clock.publish(Clock(clock=message.header.stamp))

def step():
    global stamp
    with open({rows!r}, 'a') as rows:
        rows.write(json.dumps([stamp, list(forces.values())]) + '\\n')
    plant.step(np.array(list(forces.values())))
    stamp += 1_000_000
    tell()

def serve(connection):
    asked = 0
    for line in connection.makefile('r'):
        word, name, fields = json.loads(line)
        asked += word == 'request'
        if word == 'request' and asked == 1:
            continue  # the first of a connection may be lost
        time.sleep(1e-3 * random.choice([0.0, 0.0, 0.0, 0.5, 3.0]))  # a busy machine
        with lock:
            if word == 'subscribe':
                listeners.append((connection, name))
            elif word == 'publish' and name == MARK:
                for listener, topic in listeners:
                    listener.sendall((json.dumps(['publish', REPLY]) + '\\n').encode())
            elif word == 'publish':
                forces[name.split('/')[-2]] = fields['data']
            else:
                connection.sendall((json.dumps(['reply', name]) + '\\n').encode())
                if fields != {{'pause': True}}:
                    assert fields == {{'pause': True, 'multi_step': 1}}, fields
                    step()

def accept():
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

server = socket.socket(socket.AF_UNIX)
server.bind(os.environ['STEPPED_STAND_IN'] + '_')
server.listen()
os.rename(os.environ['STEPPED_STAND_IN'] + '_', os.environ['STEPPED_STAND_IN'])
threading.Thread(target=accept, daemon=True).start()
while True:
    time.sleep(0.005)
    with lock:
        tell()  # a paused Gazebo does
"""


class SteppedStandIn:
    """Stand-ins for Gazebo, ros_gz_bridge and the Python bindings for a launch.

    Args:
        folder: Folder of all files.
        launches: Launches that see it.
    """

    def __init__(self, folder: Path, launches: Launches) -> None:
        self._rows, messages = folder / 'rows', folder / 'bindings' / 'gz' / 'msgs'
        messages.mkdir(parents=True)
        (messages.parent / '__init__.py').touch()  # so that no real one is found
        (messages.parent / 'transport.py').write_text(_TRANSPORT, encoding='utf-8')
        for name in ('Double', 'Empty', 'Boolean', 'World_Control'):
            file = messages / f'{name.lower()}_pb2.py'
            file.write_text(_MESSAGE.format(name=name.replace('_', '')), encoding='utf-8')
        self.command = Gazebo(folder)
        launches.add_bridge(_WORLD.format(rows=str(self._rows)))
        launches.env |= self.command.env | {
            'STEPPED_STAND_IN': str(folder / 'socket'),
            'PYTHONPATH': f'{messages.parents[1]}:{launches.env["PYTHONPATH"]}',
        }

    def steps(self) -> list[tuple[int, np.ndarray]]:
        """Return time, ns, and forces of each step."""
        lines = self._rows.read_text(encoding='utf-8').splitlines() if self._rows.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith(']]')]
        return [(stamp, np.array(forces)) for stamp, forces in rows]
