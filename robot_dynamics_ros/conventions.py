# SPDX-License-Identifier: Apache-2.0
r"""Notation: symbols, signs, frames, index order, units. This module contains no code.

Units
    SI throughout (REP-103): m, rad, s, kg, N, N m. A joint coordinate is in rad (revolute,
    continuous) or m (prismatic), its effort in N m or N.

Joint space
    ``q v a tau``: position, velocity, acceleration, effort, each of shape (n,), in the order of
    ``Robot.joint_names`` (parents first). The ROS terms position, velocity, effort are used
    only where messages are converted. Kane's generalized speeds ``u`` are used only in
    ``kane.py``.

Equation of motion
    ``M(q) a + c(q, v) + g(q) = tau + J^T F``

    M mass matrix; c centrifugal and Coriolis force; g gravity force; b = c + g bias force.
    F is the wrench applied *by the environment to the robot*, so inverse dynamics is
    ``tau = M a + c + g - J^T F``. Joint friction and the armature of the drives are separate terms
    (``dynamics/joint_terms.py``): ``tau_motor = tau + armature * a + friction(v)``.

Indices
    The indices of the differentiated quantity come first, the joint of the derivative last:
    ``dM[i, j, s]`` is the derivative of ``M[i, j]`` with respect to ``q[s]``, so ``dM @ v`` is the
    rate of M. The first index of the Christoffel symbols is the row of C. In a batch, the state
    index comes before all others.

Spatial vectors
    **Linear part first, angular part second**: motion ``[v; w]``, wrench ``[F; M]``. A wrench on
    body i is expressed in the axes of body frame i, with the moment about the origin of frame i,
    unless the name says otherwise.

Frames and names
    Body i is the body that joint i moves; its frame is the URDF frame of the joint's child link,
    fixed to the body, with its origin on the joint axis. Index -1 is the base.
    ``R_AB`` maps components in B to components in A; ``p_AB_E`` is the vector from the origin of
    A to the origin of B in the axes of E (E = A if omitted). W is the base (world) frame, P the
    parent body, J the joint frame at joint position zero, B the body, C the centre of mass.

Constraints
    A task or virtual constraint is ``f(q, t) = 0`` with m rows: ``Gamma = df/dq`` (m, n),
    ``f'' = Gamma a + beta``. A reaction or multiplier N acts on the joints as ``Gamma^T N``. A set
    of constraints with their gains is called a program.

Coordinates
    Controlled joints are those that a law commands; mimic joints follow their joints, locked
    joints keep their position. In a closed-loop mechanism, u are the independent coordinates and
    phi the dependent joints.

Time
    Seconds as float in laws and trajectories; integer nanoseconds where timestamps are compared.
    A state has two times: its timestamp, and its arrival time on the steady clock.

Friction and armature
    Viscous coefficient in N m s/rad or N s/m, Coulomb level in N m or N. Armature is rotor inertia
    times gear ratio squared, kg m^2 or kg at the joint.

Errors
    ``error = reference - measured`` everywhere.

Gains
    The gains of computed torque are acceleration gains, ``Kp`` in 1/s^2 and ``Kd`` in 1/s, set by
    natural frequency ``w0`` (rad/s) and damping ratio ``zeta``: ``Kp = w0^2``,
    ``Kd = 2 zeta w0``.

Scalars
    Formulations, kinematics and spatial algebra accept floats, complex numbers, mpmath numbers,
    SymPy expressions and traced scalars; arrays of anything other than floats have dtype object.
"""
