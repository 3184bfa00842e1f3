# Generated from the template by `make translate`: change template.yaml instead.
# A conditional output is null if its condition is false.

output "lease_table_name" {
  value       = aws_cloudformation_stack.leasehold.outputs["LeaseTableName"]
  description = "Name of the lease table, LEASE_TABLE of every function and of Rust programs that use the crate"
}

output "lease_table_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["LeaseTableArn"]
  description = "ARN of the lease table, for policies of Rust programs and of fenced writes"
}

output "acquire_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["AcquireFunctionArn"]
  description = "ARN of the function that grants leases"
}

output "extend_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["ExtendFunctionArn"]
  description = "ARN of the function that extends leases"
}

output "release_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["ReleaseFunctionArn"]
  description = "ARN of the function that releases leases"
}

output "start_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["StartFunctionArn"]
  description = "ARN of the function that starts executions under leases"
}

output "sweep_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["SweepFunctionArn"]
  description = "ARN of the function that frees the leases of crashed holders"
}

output "reap_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["ReapFunctionArn"]
  description = "ARN of the function that frees the leases of executions that have ended"
}

output "reap_queue_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["ReapQueueArn"]
  description = "ARN of the queue that delivers the ends of executions to reap"
}

output "reap_dead_letter_queue_url" {
  value       = aws_cloudformation_stack.leasehold.outputs["ReapDeadLetterQueueUrl"]
  description = "URL of the queue with ended executions that reap did not receive or could not handle; normally empty"
}

output "start_role_name" {
  value       = aws_cloudformation_stack.leasehold.outputs["StartRoleName"]
  description = "Name of start's role, for a policy of yours by which it reads a queue of yours"
}

output "inspect_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["InspectFunctionArn"]
  description = "ARN of the function that shows leases"
}

output "operate_function_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["OperateFunctionArn"]
  description = "ARN of the operators' function; let people invoke it, not workflows"
}

output "with_lease_state_machine_arn" {
  value       = aws_cloudformation_stack.leasehold.outputs["WithLeaseStateMachineArn"]
  description = "ARN of the state machine that starts one of yours under a lease, and ends as it ends"
}

output "critical_section_state_machine_arn" {
  value       = lookup(aws_cloudformation_stack.leasehold.outputs, "CriticalSectionStateMachineArn", null)
  description = "ARN of the sample critical section around your function"
}

output "queued_section_state_machine_arn" {
  value       = lookup(aws_cloudformation_stack.leasehold.outputs, "QueuedSectionStateMachineArn", null)
  description = "ARN of the sample section that waits in the queue, around your function"
}

output "observe_state_machine_arn" {
  value       = lookup(aws_cloudformation_stack.leasehold.outputs, "ObserveStateMachineArn", null)
  description = "ARN of the sample section that compares no clocks, around your function"
}

output "semaphore_state_machine_arn" {
  value       = lookup(aws_cloudformation_stack.leasehold.outputs, "SemaphoreStateMachineArn", null)
  description = "ARN of the sample that runs your function over a list, a limited number at once"
}

output "transfer_state_machine_arn" {
  value       = lookup(aws_cloudformation_stack.leasehold.outputs, "TransferStateMachineArn", null)
  description = "ARN of the sample that moves an amount between two accounts of your table"
}
