# Plans the module, without an account: `terraform init -backend=false && terraform test`, with Terraform 1.7 or later.
mock_provider "aws" {}

variables {
  code_bucket = "bucket"
}

run "defaults_are_those_of_the_template" {
  command = plan
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["ClockMarginMs"] == "2000"
    error_message = "a number"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["DeletionProtection"] == "true"
    error_message = "a switch"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["StartedStateMachine"] == ""
    error_message = "an empty list"
  }
  assert {
    condition     = !contains(keys(aws_cloudformation_stack.leasehold.parameters), "ExtendConcurrency")
    error_message = "no reserved concurrency"
  }
}

run "what_is_given_reaches_the_stack" {
  command = plan
  variables {
    monitoring           = false
    subnet_ids           = ["subnet-1", "subnet-2"]
    reserved_concurrency = { extend = 10 }
    clock_margin_ms      = null
    token_floor          = 500000000000000
    leasing_state_machines = [
      "arn:aws:states:us-east-1:123456789012:stateMachine:orders_*",
      "arn:aws:states:us-east-1:123456789012:stateMachine:bills",
    ]
    more_parameters = { Newer = "1" }
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["Monitoring"] == "disabled"
    error_message = "a switch"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["SubnetIds"] == "subnet-1,subnet-2"
    error_message = "a list"
  }
  assert {
    condition     = length(split(",", aws_cloudformation_stack.leasehold.parameters["LeasingStateMachine"])) == 2
    error_message = "a list of ARNs"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["ExtendConcurrency"] == "10"
    error_message = "a reserved concurrency"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["ClockMarginMs"] == "2000"
    error_message = "null is the default"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["TokenFloor"] == "500000000000000"
    error_message = "a large number"
  }
  assert {
    condition     = aws_cloudformation_stack.leasehold.parameters["Newer"] == "1"
    error_message = "any other parameter"
  }
}

run "what_the_template_refuses_is_refused_at_once" {
  command = plan
  variables {
    name                   = "9"
    code_bucket            = "Bucket"
    code_prefix            = "no-slash"
    architecture           = "arm"
    clock_margin_ms        = 3600001
    guard_ms               = 0.5
    log_retention_days     = 2
    reap_statuses          = ["DONE"]
    sweep_schedule         = "1 minute"
    started_state_machines = ["*"]
    start_keys             = ["orders/*"]
    kms_key_arn            = "alias/mine"
    reserved_concurrency   = { nobody = 1 }
  }
  expect_failures = [
    var.name, var.code_bucket, var.code_prefix, var.architecture, var.clock_margin_ms, var.guard_ms, var.log_retention_days,
    var.reap_statuses, var.sweep_schedule, var.started_state_machines, var.start_keys, var.kms_key_arn, var.reserved_concurrency,
  ]
}
