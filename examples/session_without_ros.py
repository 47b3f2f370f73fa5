# SPDX-License-Identifier: Apache-2.0
"""Run the complete controller without ROS on a simulated arm, until no more states arrive.

A state has two times in ns: its timestamp, and the steady time of its arrival.
"""

import numpy as np

from robot_dynamics_ros import ControllerSession, load_robot
from robot_dynamics_ros.control.requests import prepare_parameters, prepare_trajectory, repeat
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.simulation.mujoco_plant import MujocoPlant

PERIOD_NS = 1_000_000
arm = load_robot(shipped_robot('scara'))
start, goal = np.array([0.2, 0.9, 0.08, 0.0]), np.array([0.7, 0.4, 0.12, 1.0])
gains = {'natural_frequency': [12.0], 'home': start.tolist()}  # of both laws the same at the start
session = ControllerSession(arm, {'law': 'pd_gravity', **gains})
plant = MujocoPlant(arm, 1e-9 * PERIOD_NS)
plant.reset(start)
q, v, clock = np.empty(arm.n), np.empty(arm.n), 0
answered = []  # time, state and command of every tick


def run(seconds: float) -> float:
    """Answer states for a duration in s; return the largest joint error, rad or m."""
    global clock
    worst = 0.0
    for _ in range(round(1e9 * seconds / PERIOD_NS)):
        clock += PERIOD_NS
        plant.read(q, v)
        if session.update(session.driver.state(clock, clock, q, v)):
            plant.step(session.command)
            session.settle()
            answered.append((clock, q.copy(), v.copy(), session.command.copy()))
            worst = max(worst, abs(session.loop.reference.position - q).max())
    while session.remarks:
        print(f'  {session.remarks.popleft().text}')
    return worst


def there_and_back() -> None:
    """Send a smooth trajectory to the goal and back, 2 s."""
    times, still = np.array([1.0, 2.0]), np.zeros((2, arm.n))
    points = (times, np.array([goal, start]), still, still)
    print(prepare_trajectory(session, points)())


session.update(session.driver.state(0, 0, start, np.zeros(arm.n)))
session.activate(0)
run(0.5)
for law in ('pd_gravity', 'computed_torque'):
    print(prepare_parameters(session, {'law': law})())
    there_and_back()
    run(1.0)  # to the goal; the error of the previous law decays
    print(f'{law}: largest error while returning {1e3 * run(1.2):.3g} mrad or mm,', end=' ')
    print(f'then {session.mode.value}')

sent = session.watch(clock + 200 * PERIOD_NS)  # no state for 0.2 s
print(f'states stop: {session.mode.value}, command sent: {sent},', session.command)
run(0.1)
print(f'states return: {session.mode.value}')

changes, difference = session.log.dated, 0.0
again = ControllerSession(arm, changes[0].content['parameters'])
for tick, (stamp, *state, command) in enumerate(answered, 1):
    while changes and changes[0].tick <= tick:
        change = changes.popleft()
        repeat(again, change.kind, change.content)
    again.update(again.driver.state(stamp, stamp, *state))
    again.settle()
    difference = max(difference, abs(again.command - command).max())
print(f'computed again from states and log: largest difference {difference}')
