# SPDX-License-Identifier: Apache-2.0
"""A complete controller without ROS: laws, trajectories, safety, drivers; loop, session, setup.

``loop`` is the control tick, ``session`` the state machine around it; ``setup`` builds the loop
from parameters. ``laws`` compute efforts, ``trajectories`` references; ``safety`` limits the
output of the law, ``drivers`` convert between model and driver.
"""
