# Leasehold as a module: the plain template of a release, in a CloudFormation stack that Terraform manages. variables.tf has the
# template's parameters, outputs.tf its outputs.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_region" "here" {}
data "aws_partition" "here" {}

locals {
  # As CloudFormation expects them: a list is one text with commas, and a missing parameter keeps the template's default.
  parameters = {
    CodeBucket             = var.code_bucket
    CodePrefix             = var.code_prefix
    Architecture           = var.architecture
    NamePrefix             = var.name_prefix
    ClockMarginMs          = var.clock_margin_ms
    GuardMs                = var.guard_ms
    RetentionDays          = var.retention_days
    QueueCap               = var.queue_cap
    ReapGraceSeconds       = var.reap_grace_seconds
    LookSeconds            = var.look_seconds
    TokenFloor             = var.token_floor
    LogLevel               = var.log_level
    LogRetentionDays       = var.log_retention_days
    Tracing                = var.tracing
    SweepSchedule          = var.sweep_schedule
    Monitoring             = var.monitoring ? "enabled" : "disabled"
    AlarmTopicArn          = var.alarm_topic_arn
    WrappedStateMachine    = var.wrapped_state_machines == null ? null : join(",", var.wrapped_state_machines)
    LeasingStateMachine    = var.leasing_state_machines == null ? null : join(",", var.leasing_state_machines)
    StartedStateMachine    = var.started_state_machines == null ? null : join(",", var.started_state_machines)
    StartKeys              = var.start_keys == null ? null : join(",", var.start_keys)
    KmsKeyArn              = var.kms_key_arn
    PermissionsBoundaryArn = var.permissions_boundary_arn
    DeletionProtection     = var.deletion_protection
  }
}

resource "aws_cloudformation_stack" "leasehold" {
  name         = var.name
  template_url = "https://s3.${data.aws_region.here.id}.${data.aws_partition.here.dns_suffix}/${var.code_bucket}/${var.code_prefix}leasehold.json"
  capabilities = ["CAPABILITY_IAM"]
  parameters   = merge({ for name, value in local.parameters : name => tostring(value) if value != null }, var.more_parameters)
  tags         = var.tags
}
