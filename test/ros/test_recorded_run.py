# SPDX-License-Identifier: Apache-2.0
"""A run over ROS, recorded by the recorder node: complete, replayed exactly, explained."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
from bags import MS
from rclpy.qos import DurabilityPolicy, QoSProfile
from resting_arm import JOINTS, trajectory
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.recordings.reading import read_recording

FIRST = [0.3, -0.4, 0.1, 0.5]
AIM = [0.6, -0.1, 0.15, 0.1]
TAIL_S = 0.6


def run(processes, peer, bag: Path, controller: dict, during) -> None:
    """Record a lockstep run; ``during`` is called while it runs, ``TAIL_S`` later it ends."""
    latched = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    statuses = peer.collect(String, 'controller/trajectory_status', latched)
    sender = peer.node.create_publisher(JointTrajectory, 'controller/joint_trajectory', 10)
    recorder = processes.start('recorder', {'bag': str(bag)})
    recorder.says('recording to')
    usual = {
        'robot': 'scara', 'use_sim_time': True, 'state_timeout_s': 60.0,
        'await_listeners': ['recorder'],
        # A recorder that is delayed during the run must not lose anything.
        'qos_overrides./effort_controller/commands.publisher.depth': 2000,
    }  # fmt: skip
    processes.start('controller', usual | controller)
    simulator = processes.start(
        'simulator',
        {'robot': 'scara', 'mode': 'lockstep', 'start_paused': True, 'initial_position': FIRST,
         'on_end': 'exit', 'payload_mass': controller.get('payload_mass', 0.0)},
    )  # fmt: skip
    peer.spin_until(
        lambda: peer.call(Trigger, 'recorder/ready', Trigger.Request()).success, 40, 'readiness'
    )
    peer.spin_until(
        lambda: sender.get_subscription_count() >= 2, 20, 'controller and recorder listening'
    )
    peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
    during(peer, sender, statuses)
    # However long that took, the motion has not begun.
    paused = peer.call(SetBool, 'simulator/pause', SetBool.Request(data=True)).message
    end_s = float(paused.rpartition(' ')[2]) + TAIL_S
    assert peer.set('simulator', end_time_s=end_s).successful
    peer.call(SetBool, 'simulator/pause', SetBool.Request(data=False))
    peer.spin_until(lambda: simulator.returncode is not None, 60, 'the end')
    recorder.stop(signal.SIGINT)


def move_and_change(peer, sender, statuses) -> None:
    sender.publish(trajectory([(0.2, AIM), (0.4, FIRST)]))
    peer.spin_until(lambda: statuses, 20, 'the answer to the trajectory')
    assert statuses[-1].data.startswith('accepted')
    gains = [18.0, 17.0, 16.0, 15.0]
    assert peer.set('controller', natural_frequency=gains).successful


def test_a_recorded_run_is_replayed_to_the_digit_and_explained(processes, peer, tmp_path):
    bag = tmp_path / 'bag'
    run(processes, peer, bag, {'law': 'computed_torque', 'payload_mass': 0.8}, move_and_change)
    recording = read_recording(bag).of_joints(JOINTS)
    assert recording.notes == ()
    assert np.ptp(recording.reference_position, axis=0).max() > 0.1, 'it moved'
    assert np.unique(np.diff(recording.stamp_ns)).tolist() == [MS]
    code = main(['replay', str(bag), '--output', str(tmp_path / 'replay')])
    found = json.loads((tmp_path / 'replay' / 'replay.json').read_text('utf-8'))
    # The same object and the same numbers on the same machine.
    assert max(found['peak']) <= 1e-9, found
    assert code == 0
    assert found['commands'] > 500
    assert main(['analyze', str(bag), '--output', str(tmp_path / 'figures'), '--no-report']) == 0
    figures = json.loads((tmp_path / 'figures' / 'metrics.json').read_text('utf-8'))
    assert figures['timing']['name'] == 'semi_implicit'
    assert figures['effort']['source'] == 'measured, delayed by one step'
    # The plant's Coulomb friction is a soft constraint, solved to 1e-14 with an impedance of
    # 0.9999.
    assert max(figures['effort']['residual_share']) < 1e-4
