# Generated from the template by `make translate`: change template.yaml instead.

locals {
  # As CloudFormation expects them: a list is one text with commas.
  parameters = {
    Architecture           = var.architecture
    ClockMarginMs          = var.clock_margin_ms
    GuardMs                = var.guard_ms
    RetentionDays          = var.retention_days
    QueueCap               = var.queue_cap
    ReapGraceSeconds       = var.reap_grace_seconds
    LookSeconds            = var.look_seconds
    TokenFloor             = var.token_floor
    Grants                 = var.grants
    ExistingTableName      = var.existing_table_name
    LogLevel               = var.log_level
    LogRetentionDays       = var.log_retention_days
    Tracing                = var.tracing
    SweepSchedule          = var.sweep_schedule
    Monitoring             = var.monitoring ? "enabled" : "disabled"
    AlarmTopicArn          = var.alarm_topic_arn
    RunbookUrl             = var.runbook_url
    WaitAlarmSeconds       = var.wait_alarm_seconds
    QueueAlarmCount        = var.queue_alarm_count
    TakeOverAlarmCount     = var.take_over_alarm_count
    FailureAlarmCount      = var.failure_alarm_count
    SweepAlarmSeconds      = var.sweep_alarm_seconds
    ReapStatuses           = join(",", var.reap_statuses)
    RedrivenStarts         = var.redriven_starts
    ReapQueueConcurrency   = var.reap_queue_concurrency
    PermissionsBoundaryArn = var.permissions_boundary_arn
    SubnetIds              = join(",", var.subnet_ids)
    SecurityGroupIds       = join(",", var.security_group_ids)
    DeletionProtection     = var.deletion_protection
    MachineLogging         = var.machine_logging
    NamePrefix             = var.name_prefix
    KmsKeyArn              = var.kms_key_arn
    StepFunctionArn        = var.step_function_arn
    AccountsTableName      = var.accounts_table_name
    LeasingStateMachine    = join(",", var.leasing_state_machines)
    StartedStateMachine    = join(",", var.started_state_machines)
    DurableFunction        = join(",", var.durable_functions)
    StartKeys              = join(",", var.start_keys)
    CodeBucket             = var.code_bucket
    CodePrefix             = var.code_prefix
  }
  concurrency = { for name, number in var.reserved_concurrency : "${title(name)}Concurrency" => number }
}
