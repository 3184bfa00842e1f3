# Each order is settled by one execution at a time: a workflow starts Leasehold's with-lease, which starts the order's machine.
#   terraform apply -var code_bucket=name-of-your-bucket
variable "code_bucket" {
  type        = string
  description = "Name of the S3 bucket with the files of a release."
}

data "aws_region" "here" {}
data "aws_partition" "here" {}
data "aws_caller_identity" "me" {}

locals {
  states = "arn:${data.aws_partition.here.partition}:states:${data.aws_region.here.id}:${data.aws_caller_identity.me.account_id}"
  events = "arn:${data.aws_partition.here.partition}:events:${data.aws_region.here.id}:${data.aws_caller_identity.me.account_id}"
}

module "leasehold" {
  source      = "./leasehold"
  name        = "leasehold"
  code_bucket = var.code_bucket
  # By default, machines whose names begin with leasehold_started_ may be started under a lease.
  started_state_machines = [aws_sfn_state_machine.settle.arn]
}

# The machine that runs under a lease. It contains nothing about leases.
resource "aws_sfn_state_machine" "settle" {
  name     = "settle-order"
  role_arn = aws_iam_role.settle.arn
  definition = jsonencode({
    QueryLanguage = "JSONata"
    StartAt       = "Settle"
    States        = { Settle = { Type = "Wait", Seconds = 5, End = true } }
  })
}

resource "aws_sfn_state_machine" "on_order" {
  name     = "on-order"
  role_arn = aws_iam_role.on_order.arn
  definition = templatefile("${path.module}/on-order.asl.json", {
    Partition = data.aws_partition.here.partition
    WithLease = module.leasehold.with_lease_state_machine_arn
    Settle    = aws_sfn_state_machine.settle.arn
  })
}

resource "aws_iam_role" "settle" {
  name               = "settle-order"
  assume_role_policy = data.aws_iam_policy_document.states.json
}

resource "aws_iam_role" "on_order" {
  name               = "on-order"
  assume_role_policy = data.aws_iam_policy_document.states.json
}

resource "aws_iam_role_policy" "on_order" {
  name   = "start-with-lease"
  role   = aws_iam_role.on_order.id
  policy = data.aws_iam_policy_document.on_order.json
}

data "aws_iam_policy_document" "states" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["states.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "on_order" {
  statement {
    actions   = ["states:StartExecution"]
    resources = [module.leasehold.with_lease_state_machine_arn]
  }
  statement {
    actions   = ["states:DescribeExecution", "states:StopExecution"]
    resources = ["${local.states}:execution:leasehold-with-lease:*"]
  }
  # Step Functions learns of the other workflow's end through this rule, which the service itself manages.
  statement {
    actions   = ["events:DescribeRule", "events:PutRule", "events:PutTargets"]
    resources = ["${local.events}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"]
  }
}

output "on_order_arn" {
  value       = aws_sfn_state_machine.on_order.arn
  description = "ARN of the workflow to start with {\"order\": 42}."
}
