// SPDX-License-Identifier: Apache-2.0
// Computed torque with generated inverse dynamics; independent of ROS.
#ifndef COMPUTED_TORQUE_HPP_
#define COMPUTED_TORQUE_HPP_

#include <algorithm>
#include <array>
#include <cmath>

#include "arm.h"

namespace generated_torque_controller
{
using Joints = std::array<double, ARM_N>;

struct Settings
{
  double natural_frequency = 10.0;  // rad/s
  double damping_ratio = 1.0;
  double ramp = 0.5;      // s, over which the feedback is blended in
  Joints effort_limits{};  // N m or N, positive
};

struct Reference
{
  Joints position{};      // rad or m
  Joints velocity{};      // rad/s or m/s
  Joints acceleration{};  // rad/s^2 or m/s^2
};

// Efforts tau = M(q) a + c(q, v) + g(q) with a = a_r + s (2 z w (v_r - v) + w^2 (q_r - q)), within
// their limits; s rises from 0 to 1 over the ramp, so that the first effort contains only gravity
// and motion. Returns false, and leaves tau unchanged, if an effort is not finite.
inline bool computed_torque(
  const Settings & settings, double since_start, const Reference & reference, const Joints & q,
  const Joints & v, Joints & tau)
{
  const double w = settings.natural_frequency;
  const double share =
    settings.ramp > 0.0 ? std::clamp(since_start / settings.ramp, 0.0, 1.0) : 1.0;
  Joints a, unlimited;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double damping = 2.0 * settings.damping_ratio * w * (reference.velocity[i] - v[i]);
    const double stiffness = w * w * (reference.position[i] - q[i]);
    a[i] = reference.acceleration[i] + share * (damping + stiffness);
  }
  arm_inverse_dynamics(q.data(), v.data(), a.data(), unlimited.data());
  for (const double effort : unlimited) {
    if (!std::isfinite(effort)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < tau.size(); ++i) {
    tau[i] = std::clamp(unlimited[i], -settings.effort_limits[i], settings.effort_limits[i]);
  }
  return true;
}
}  // namespace generated_torque_controller

#endif  // COMPUTED_TORQUE_HPP_
