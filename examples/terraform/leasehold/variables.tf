# What has no default here is given; null keeps the default of the template.
variable "name" {
  type        = string
  default     = "leasehold"
  description = "Name of the CloudFormation stack, with which the names of its functions and state machines begin."
}

variable "code_bucket" {
  type        = string
  description = "Name of the S3 bucket, in the stack's Region, that holds what was installed from."
}

variable "code_prefix" {
  type        = string
  default     = "leasehold-0.1.0/"
  description = "What its objects' names begin with: empty, or up to a slash. With the version in it, an update takes the new code."
}

variable "architecture" {
  type        = string
  default     = null
  description = "Instruction set of all functions: arm64 or x86_64."
}

variable "name_prefix" {
  type        = string
  default     = null
  description = "What the names of the state machines begin with, a hyphen after it. Empty: the stack's name, which then has 63 characters at most, as Step Functions allows 80; a nested stack has a longer one."
}

variable "clock_margin_ms" {
  type        = number
  default     = null
  description = "Milliseconds an expired lease is left alone before the clock may take it over. Safe while any two clocks differ by less than half of it."
}

variable "guard_ms" {
  type        = number
  default     = null
  description = "Milliseconds before expires_at at which a holder has to stop (safe_until); every ttl has to be longer."
}

variable "retention_days" {
  type        = number
  default     = null
  description = "Days a released row is kept before DynamoDB purges it; it remembers spent requests for that long."
}

variable "claim_seconds" {
  type        = number
  default     = null
  description = "Seconds a woken waiter has to confirm the lease that is reserved for it, before the next in line is woken."
}

variable "queue_cap" {
  type        = number
  default     = null
  description = "How many may wait in line for one key; who comes after them is refused."
}

variable "reap_grace_seconds" {
  type        = number
  default     = null
  description = "Seconds until the leases that an execution still holds at its end are free: a Lambda function that it had started may still be at work, for 900 at most."
}

variable "token_floor" {
  type        = number
  default     = null
  description = "Every new fencing token is above it. For a table restored from a backup, whose tokens are set back: the time of the restore in milliseconds since the epoch. 0 for a table that never was. Never lower it again."
}

variable "log_level" {
  type        = string
  default     = null
  description = "How much the functions log. From WARN on, calls that went well leave no line; the lines that carry the metrics are written at every level."
}

variable "log_retention_days" {
  type        = number
  default     = null
  description = "Days the functions' logs are kept."
}

variable "tracing" {
  type        = string
  default     = null
  description = "Active has X-Ray trace invocations of the functions, and gives their roles the right to send it traces. PassThrough leaves that to whoever calls them, and needs no right."
}

variable "sweep_schedule" {
  type        = string
  default     = null
  description = "How often sweep frees what crashed, as an EventBridge rate or cron expression. Safety never rests on it; that waiters are told in time does."
}

variable "monitoring" {
  type        = bool
  default     = true
  description = "Whether there are alarms and a dashboard."
}

variable "alarm_topic_arn" {
  type        = string
  default     = null
  description = "ARN of the SNS topic that is told when an alarm begins and ends; if the topic has a key of its own, that key has to let CloudWatch use it. Empty: the alarms are seen on the dashboard only."
}

variable "wrapped_state_machines" {
  type        = list(string)
  default     = null
  description = "Which of your state machines may be run inside a lease: a list of ARNs, each of one machine, or with an asterisk after the beginning of a name. Empty: those whose names begin with this stack's name and _wrapped_, which no machine of another stack does, since a stack's name has no underscore. A bare asterisk is refused: it would let anyone who may start the wrapper start everything."
}

variable "leasing_state_machines" {
  type        = list(string)
  default     = null
  description = "Which of your state machines have leases of their own, besides those of this stack: a list of ARNs as in WrappedStateMachine. Only these can wait in line, and only their leases are given back when their executions end. Empty: those whose names begin with this stack's name and _leasing_."
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "ARN of a key of yours that encrypts table, queues and logs. Its key policy has to let this account's roles use it (the roles here are allowed to), and the services logs and events; docs/how-to/kms-key.md has the statements. Empty: keys of the services' own."
}

variable "permissions_boundary_arn" {
  type        = string
  default     = null
  description = "ARN of the permissions boundary that every role here gets; empty if none does."
}

variable "deletion_protection" {
  type        = bool
  default     = null
  description = "Whether DynamoDB refuses to delete the table. With false in a stack's first deploy, one that fails leaves no table behind; deploy with true then."
}

variable "more_parameters" {
  type        = map(string)
  default     = {}
  description = "Parameters of the template that have no variable here, by their names in the template."
}

variable "tags" {
  type        = map(string)
  default     = {}
  description = "Tags of the stack, which CloudFormation gives to every resource that can have any."
}
