// SPDX-License-Identifier: Apache-2.0
// Holds an arm at the position of activation by computed torque, at the controller manager's rate.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "controller_interface/controller_interface.hpp"
#include "hardware_interface/types/hardware_interface_type_values.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp/logging.hpp"
#include "rclcpp_lifecycle/state.hpp"

#include "computed_torque.hpp"

namespace generated_torque_controller
{
using controller_interface::CallbackReturn;
using controller_interface::InterfaceConfiguration;
using controller_interface::interface_configuration_type;
using controller_interface::return_type;

class TorqueController : public controller_interface::ControllerInterface
{
public:
  CallbackReturn on_init() override
  {
    try {
      auto_declare<std::vector<std::string>>("joints", {});
      auto_declare<double>("natural_frequency", settings_.natural_frequency);
      auto_declare<double>("damping_ratio", settings_.damping_ratio);
      auto_declare<double>("ramp", settings_.ramp);
      auto_declare<std::vector<double>>("effort_limits", {});
    } catch (const std::exception & error) {
      fprintf(stderr, "torque_controller: %s\n", error.what());
      return CallbackReturn::ERROR;
    }
    return CallbackReturn::SUCCESS;
  }

  CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    const auto node = get_node();
    joints_ = node->get_parameter("joints").as_string_array();
    const auto limits = node->get_parameter("effort_limits").as_double_array();
    settings_.natural_frequency = node->get_parameter("natural_frequency").as_double();
    settings_.damping_ratio = node->get_parameter("damping_ratio").as_double();
    settings_.ramp = node->get_parameter("ramp").as_double();
    if (joints_.size() != ARM_N || limits.size() != ARM_N) {
      RCLCPP_ERROR(
        node->get_logger(), "joints and effort_limits must have %d entries, in the order of arm.h",
        ARM_N);
      return CallbackReturn::ERROR;
    }
    const bool positive = settings_.natural_frequency > 0.0 && settings_.damping_ratio > 0.0;
    if (!positive || !(settings_.ramp >= 0.0) || !std::isfinite(settings_.ramp)) {
      RCLCPP_ERROR(
        node->get_logger(), "natural_frequency and damping_ratio must be positive, ramp 0 or more");
      return CallbackReturn::ERROR;
    }
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (!(limits[i] > 0.0) || !std::isfinite(limits[i])) {
        RCLCPP_ERROR(
          node->get_logger(), "effort_limits: %g of %s must be positive and finite", limits[i],
          joints_[i].c_str());
        return CallbackReturn::ERROR;
      }
      settings_.effort_limits[i] = limits[i];
    }
    return CallbackReturn::SUCCESS;
  }

  InterfaceConfiguration command_interface_configuration() const override
  {
    return of_joints({hardware_interface::HW_IF_EFFORT});
  }

  InterfaceConfiguration state_interface_configuration() const override
  {
    return of_joints({hardware_interface::HW_IF_POSITION, hardware_interface::HW_IF_VELOCITY});
  }

  CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    if (!read_state()) {
      RCLCPP_ERROR(get_node()->get_logger(), "a joint has no finite position or velocity");
      return CallbackReturn::ERROR;
    }
    reference_ = Reference{};
    reference_.position = q_;
    since_start_ = 0.0;
    return CallbackReturn::SUCCESS;
  }

  return_type update(const rclcpp::Time &, const rclcpp::Duration & period) override
  {
    const bool computed =
      read_state() && computed_torque(settings_, since_start_, reference_, q_, v_, tau_);
    since_start_ += period.seconds();
    if (!computed) {
      return return_type::ERROR;  // the manager deactivates this controller
    }
    for (std::size_t i = 0; i < tau_.size(); ++i) {
      if (!command_interfaces_[i].set_value(tau_[i])) {
        return return_type::ERROR;
      }
    }
    return return_type::OK;
  }

private:
  // State interfaces are in the requested order: position and velocity of joint 1, of joint 2, ...
  bool read_state()
  {
    for (std::size_t i = 0; i < q_.size(); ++i) {
      const auto position = state_interfaces_[2 * i].get_optional();
      const auto velocity = state_interfaces_[2 * i + 1].get_optional();
      if (!position || !velocity || !std::isfinite(*position) || !std::isfinite(*velocity)) {
        return false;
      }
      q_[i] = *position;
      v_[i] = *velocity;
    }
    return true;
  }

  InterfaceConfiguration of_joints(const std::vector<std::string> & kinds) const
  {
    InterfaceConfiguration configuration{interface_configuration_type::INDIVIDUAL, {}};
    for (const auto & joint : joints_) {
      for (const auto & kind : kinds) {
        configuration.names.push_back(joint + "/" + kind);
      }
    }
    return configuration;
  }

  std::vector<std::string> joints_;
  Settings settings_;
  Reference reference_;
  Joints q_{}, v_{}, tau_{};
  double since_start_ = 0.0;
};
}  // namespace generated_torque_controller

PLUGINLIB_EXPORT_CLASS(
  generated_torque_controller::TorqueController, controller_interface::ControllerInterface)
