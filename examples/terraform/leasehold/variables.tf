# Variables without a default are required. Null keeps the template's default.
variable "name" {
  type        = string
  default     = "leasehold"
  description = "Name of the CloudFormation stack. The names of its functions and state machines begin with it."
}

variable "code_bucket" {
  type        = string
  description = "Name of the S3 bucket with the release's files, in the stack's Region."
}

variable "code_prefix" {
  type        = string
  default     = "leasehold-0.1.0/"
  description = "Prefix of the files' names: empty, or ending with a slash. If it contains the version, an update takes the new code."
}

variable "architecture" {
  type        = string
  default     = null
  description = "Instruction set of all functions: arm64 or x86_64."
}

variable "name_prefix" {
  type        = string
  default     = null
  description = "Prefix of the state machines' names, followed by a hyphen. Empty: the stack's name, which then may have at most 63 characters, because Step Functions allows 80. A nested stack's name is longer."
}

variable "clock_margin_ms" {
  type        = number
  default     = null
  description = "Milliseconds after expiry before a lease may be taken over by the clock. It is safe while any two clocks differ by less than half of it."
}

variable "guard_ms" {
  type        = number
  default     = null
  description = "Milliseconds before expires_at at which a holder must stop (safe_until). Every ttl must be longer."
}

variable "retention_days" {
  type        = number
  default     = null
  description = "Days that a released row is kept before DynamoDB purges it. For that long it remembers spent requests."
}

variable "queue_cap" {
  type        = number
  default     = null
  description = "How many may wait in the queue for one key. Further requests are refused."
}

variable "reap_grace_seconds" {
  type        = number
  default     = null
  description = "Seconds until the leases of an ended execution expire. A Lambda function that it started may still be running, for 900 at most."
}

variable "look_seconds" {
  type        = number
  default     = null
  description = "Seconds after which sweep asks about the execution that has a lease, if no event has said that it ended. Later looks come later, at most an hour apart."
}

variable "token_floor" {
  type        = number
  default     = null
  description = "Lower limit of every new fencing token. After a restore from a backup, which sets tokens back, use the time of the restore in milliseconds since the epoch. 0 for a table that was never restored. Never lower it again."
}

variable "log_level" {
  type        = string
  default     = null
  description = "Log level of the functions. At WARN and above, successful calls write no line. The lines with the metrics are written at every level."
}

variable "log_retention_days" {
  type        = number
  default     = null
  description = "Days the functions' logs are kept."
}

variable "tracing" {
  type        = string
  default     = null
  description = "Active lets X-Ray trace the functions, and gives their roles the permission to send traces. PassThrough leaves tracing to the caller, and needs no permission."
}

variable "sweep_schedule" {
  type        = string
  default     = null
  description = "How often sweep frees expired leases, as an EventBridge rate or cron expression. Safety never depends on it, but timely notification of waiters does."
}

variable "monitoring" {
  type        = bool
  default     = true
  description = "Whether there are alarms and a dashboard."
}

variable "alarm_topic_arn" {
  type        = string
  default     = null
  description = "ARN of the SNS topic that receives the start and end of each alarm. If the topic has a key of its own, that key must allow CloudWatch. Empty: alarms appear only on the dashboard."
}

variable "wrapped_state_machines" {
  type        = list(string)
  default     = null
  description = "Your state machines that may be run inside a lease: a list of ARNs, each of one machine, or ending with an asterisk after the beginning of a name. Empty: those whose names begin with this stack's name and _wrapped_. No machine of another stack has such a name, because a stack's name has no underscore. A bare asterisk is refused, because it would let anyone who may start the wrapper start everything."
}

variable "leasing_state_machines" {
  type        = list(string)
  default     = null
  description = "Your state machines that hold leases themselves, in addition to those of this stack: a list of ARNs as in WrappedStateMachine. Only these can wait in the queue, and beside what start starts only their leases are freed when their executions end. Empty: those whose names begin with this stack's name and _leasing_."
}

variable "started_state_machines" {
  type        = list(string)
  default     = null
  description = "Your state machines that start may start through keys: a list of ARNs as in WrappedStateMachine. One that acquires leases itself has to be in LeasingStateMachine too. Whoever may invoke start starts them with the rights of this stack. Empty: those whose names begin with this stack's name and _started_."
}

variable "start_keys" {
  type        = list(string)
  default     = null
  description = "Which of them may be started through which keys: a list of pairs KEY=ARN, where an asterisk stands for any characters of the key. Empty: all of them through any key."
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "ARN of your own key that encrypts table, queues and logs. Its key policy must allow this account's roles (the roles here have the permission) and the services logs and events; docs/how-to/kms-key.md has the statements. Empty: the services' own keys."
}

variable "permissions_boundary_arn" {
  type        = string
  default     = null
  description = "ARN of the permissions boundary of every role here. Empty: none."
}

variable "deletion_protection" {
  type        = bool
  default     = null
  description = "Whether DynamoDB refuses to delete the table. With false in a stack's first deploy, a failed deploy leaves no table behind. Deploy with true after it."
}

variable "more_parameters" {
  type        = map(string)
  default     = {}
  description = "Parameters of the template that have no variable here, by their names in the template."
}

variable "tags" {
  type        = map(string)
  default     = {}
  description = "Tags of the stack, which CloudFormation adds to every resource that supports tags."
}
