# Generated from the template by `make translate`: change template.yaml instead.

variable "name" {
  type        = string
  default     = "leasehold"
  nullable    = false
  description = "Name of the CloudFormation stack. The names of its functions and state machines begin with it."

  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,127}$", var.name))
    error_message = "Must begin with a letter, and have at most 128 letters, digits and hyphens."
  }
}

# Files of the release

variable "code_bucket" {
  type        = string
  description = "Name of the S3 bucket, in the stack's Region, with the files of the release."

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.code_bucket))
    error_message = "Must match ^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$."
  }
}

variable "code_prefix" {
  type        = string
  default     = "leasehold-0.1.0/"
  nullable    = false
  description = <<-EOT
    Prefix of the names of these objects: empty, or ending in a slash. It contains the version so that an update uses the
    new code.
  EOT

  validation {
    condition     = can(regex("^([^/].*/)?$", var.code_prefix))
    error_message = "Must match ^([^/].*/)?$."
  }
}

# Time

variable "clock_margin_ms" {
  type        = number
  default     = 2000
  nullable    = false
  description = <<-EOT
    How long after its deadline a lease may be taken over, in milliseconds. Safe while no clock is wrong by more than half
    of it.
  EOT

  validation {
    condition     = var.clock_margin_ms >= 0 && var.clock_margin_ms <= 3600000 && floor(var.clock_margin_ms) == var.clock_margin_ms
    error_message = "Must be a whole number from 0 to 3600000."
  }
}

variable "guard_ms" {
  type        = number
  default     = 1000
  nullable    = false
  description = "Milliseconds between safe_until, when a holder has to stop, and expires_at. Every ttl has to be longer."

  validation {
    condition     = var.guard_ms >= 0 && var.guard_ms <= 86400000 && floor(var.guard_ms) == var.guard_ms
    error_message = "Must be a whole number from 0 to 86400000."
  }
}

variable "retention_days" {
  type        = number
  default     = 7
  nullable    = false
  description = <<-EOT
    Days for which a released row is kept before DynamoDB purges it. The row remembers spent requests for that long.
  EOT

  validation {
    condition     = var.retention_days >= 1 && var.retention_days <= 3650 && floor(var.retention_days) == var.retention_days
    error_message = "Must be a whole number from 1 to 3650."
  }
}

# After a restore

variable "grants" {
  type        = string
  default     = "open"
  nullable    = false
  description = <<-EOT
    With stopped, nobody is granted a lease of the table, takes one over or revives one, and no waiter is granted a key.
    Extend in time and release go on. For a restore, or to stop everything: docs/operate/incidents.md.
  EOT

  validation {
    condition     = contains(["open", "stopped"], var.grants)
    error_message = "Must be one of open, stopped."
  }
}

variable "token_floor" {
  type        = number
  default     = 0
  nullable    = false
  description = <<-EOT
    Every new fencing token is above it. For a table restored from a backup, whose tokens are older: the time of the restore
    in milliseconds since the epoch. 0 for a table that was never restored. Never lower it again.
  EOT

  validation {
    condition     = var.token_floor >= 0 && var.token_floor <= 500000000000000 && floor(var.token_floor) == var.token_floor
    error_message = "Must be a whole number from 0 to 500000000000000."
  }
}

variable "existing_table_name" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    Name of a lease table in this account and Region to use in place of a new one, such as one that was restored or that a
    deleted stack left. No other stack may use it. Empty: the stack creates a table, or keeps the one that it has created.
  EOT

  validation {
    condition     = can(regex("^(|[a-zA-Z0-9_.-]{3,255})$", var.existing_table_name))
    error_message = "Must match ^(|[a-zA-Z0-9_.-]{3,255})$."
  }
}

# Queue and clean-up

variable "queue_cap" {
  type        = number
  default     = 128
  nullable    = false
  description = "Largest number of waiters in one key's queue. A further request is refused."

  validation {
    condition     = var.queue_cap >= 1 && var.queue_cap <= 1000 && floor(var.queue_cap) == var.queue_cap
    error_message = "Must be a whole number from 1 to 1000."
  }
}

variable "sweep_schedule" {
  type        = string
  default     = "rate(1 minute)"
  nullable    = false
  description = <<-EOT
    How often sweep frees the leases of crashed holders, as an EventBridge rate or cron expression. Safety does not depend
    on it; notifying waiters in time does. A run stays for what is due within a minute.
  EOT

  validation {
    condition     = can(regex("^((rate|cron)\\(.+\\))$", var.sweep_schedule))
    error_message = "Must match ^((rate|cron)\\(.+\\))$."
  }
}

variable "reap_grace_seconds" {
  type        = number
  default     = 900
  nullable    = false
  description = <<-EOT
    Seconds for which leases stay held after their execution has ended, because a Lambda function that it started may still
    be running: for 900 at most, or for 5,400 if it is on Lambda Managed Instances.
  EOT

  validation {
    condition     = var.reap_grace_seconds >= 0 && var.reap_grace_seconds <= 86400 && floor(var.reap_grace_seconds) == var.reap_grace_seconds
    error_message = "Must be a whole number from 0 to 86400."
  }
}

variable "look_seconds" {
  type        = number
  default     = 300
  nullable    = false
  description = <<-EOT
    Seconds after which sweep asks Step Functions about the execution that has a lease, if no event has said that it ended.
    Later looks come after as long as the lease has lasted, at most an hour.
  EOT

  validation {
    condition     = var.look_seconds >= 1 && var.look_seconds <= 3600 && floor(var.look_seconds) == var.look_seconds
    error_message = "Must be a whole number from 1 to 3600."
  }
}

variable "reap_statuses" {
  type        = list(string)
  default     = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"]
  nullable    = false
  description = <<-EOT
    Statuses of ended executions whose leases reap looks for. Each end costs one invocation. A success ends execution leases
    only. Without SUCCEEDED, one that a success did not release ends when sweep looks, in its next run if anything waits for
    the key in the queue, otherwise at most an hour later; of what start started, it ends at once in any case.
  EOT

  validation {
    condition     = alltrue([for one in var.reap_statuses : contains(["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"], one)])
    error_message = "Each must be one of SUCCEEDED, FAILED, TIMED_OUT, ABORTED."
  }
}

variable "redriven_starts" {
  type        = string
  default     = "guard"
  nullable    = false
  description = <<-EOT
    What happens to an execution that was started under a lease and is redriven after its lease has ended, which Step
    Functions lets anybody do who may call RedriveExecution. With guard it gets its key again if that is free, and is
    stopped otherwise; with alarm it is only counted. Those that acquire leases themselves are only counted in any case.
  EOT

  validation {
    condition     = contains(["guard", "alarm"], var.redriven_starts)
    error_message = "Must be one of guard, alarm."
  }
}

# Your workflows

variable "started_state_machines" {
  type        = list(string)
  default     = []
  nullable    = false
  description = <<-EOT
    State machines of yours that the function start may start, in addition to those whose names begin with this stack's name
    and _started_: a list of ARNs, each of one machine, or with an asterisk after the beginning of a name. No machine that
    another stack names after itself begins so, because a stack's name has no underscore. A bare asterisk is refused:
    everybody who may invoke start, or start with-lease, starts them with the rights of this stack. One that acquires leases
    itself has to be in leasing_state_machines too.
  EOT

  validation {
    condition     = alltrue([for one in var.started_state_machines : can(regex("^(|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$", one))])
    error_message = "Each must match ^(|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$."
  }
}

variable "start_keys" {
  type        = list(string)
  default     = []
  nullable    = false
  description = <<-EOT
    Which of them may be started under which keys: a list of pairs KEY=ARN, where an asterisk stands for any characters of
    the key. It becomes an environment variable, of which a function has 4 KB: 3,000 characters always fit, some 30 pairs.
    Empty: all of them under any key.
  EOT

  validation {
    condition     = alltrue([for one in var.start_keys : can(regex("^(|.+=arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$", one))])
    error_message = "Each must match ^(|.+=arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$."
  }
}

variable "leasing_state_machines" {
  type        = list(string)
  default     = []
  nullable    = false
  description = <<-EOT
    State machines of yours that acquire leases themselves, in addition to those of this stack and those whose names begin
    with this stack's name and _leasing_: a list of ARNs as in started_state_machines, or * alone for all of this account
    and Region. Only these can wait in the queue or for the result of a start, and reap releases only their leases, and
    those of started_state_machines, when their executions end. The rule for these ends holds 2,048 characters. Of a stack
    called leasehold, 7 machines of both lists with the longest names fit in any Region, and 13 with names of 20 characters
    in us-east-1; a longer name of the stack leaves room for fewer. Name yours by the prefix instead, which needs no deploy
    of this stack. With * sweep and reap may read every execution and its history; nobody may stop more than with an empty
    list.
  EOT

  validation {
    condition     = alltrue([for one in var.leasing_state_machines : can(regex("^(|\\*|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$", one))])
    error_message = "Each must match ^(|\\*|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[a-zA-Z0-9_-]+\\*?)$."
  }
}

variable "durable_functions" {
  type        = list(string)
  default     = []
  nullable    = false
  description = <<-EOT
    Durable functions of yours whose executions acquire leases: a list of ARNs without a version, each of one function, or
    with an asterisk after the beginning of a name. Only these can wait with a callback, and have leases that last as long
    as they run. With any entry, also those whose names begin with this stack's name and _leasing_. The rule for their ends
    holds 2,048 characters: of a stack called leasehold, 13 functions with the longest names fit in any Region. Empty: none,
    and nobody here may call them.
  EOT

  validation {
    condition     = alltrue([for one in var.durable_functions : can(regex("^(|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[a-zA-Z0-9_-]+\\*?)$", one))])
    error_message = "Each must match ^(|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[a-zA-Z0-9_-]+\\*?)$."
  }
}

variable "step_function_arn" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    ARN of your Lambda function that does the protected work of the samples (with its qualifier, if it has one). Empty: the
    samples that need it are not created.
  EOT

  validation {
    condition     = can(regex("^(|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[a-zA-Z0-9_-]+(:[a-zA-Z0-9_-]+)?)$", var.step_function_arn))
    error_message = "Must match ^(|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:[a-zA-Z0-9_-]+(:[a-zA-Z0-9_-]+)?)$."
  }
}

variable "accounts_table_name" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    Name of your table of accounts (pk, sk = BALANCE, balance), in this account and Region, for the sample transfer. The
    sample may read and update its items, and put records there. Empty: the sample is not created.
  EOT

  validation {
    condition     = can(regex("^(|[a-zA-Z0-9_.-]{3,255})$", var.accounts_table_name))
    error_message = "Must match ^(|[a-zA-Z0-9_.-]{3,255})$."
  }
}

# Watching it

variable "monitoring" {
  type        = bool
  default     = true
  nullable    = false
  description = "Whether there are alarms and a dashboard. docs/reference/cost.md has their cost per month."
}

variable "alarm_topic_arn" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    ARN of the SNS topic that is notified when an alarm begins and ends. If the topic has a key of its own, that key has to
    let CloudWatch use it. Empty: only the dashboard shows the alarms.
  EOT

  validation {
    condition     = can(regex("^(|arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]+)$", var.alarm_topic_arn))
    error_message = "Must match ^(|arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[a-zA-Z0-9_-]+)$."
  }
}

variable "runbook_url" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    Address at which your team reads docs/operate/alarms.md. The description of each alarm leads to its paragraph there.
    Empty: to the stack's dashboard, beside the file's name.
  EOT

  validation {
    condition     = can(regex("^(https://[^\\s#]+)?$", var.runbook_url))
    error_message = "Must match ^(https://[^\\s#]+)?$."
  }
}

variable "wait_alarm_seconds" {
  type        = number
  default     = 900
  nullable    = false
  description = <<-EOT
    Seconds that somebody waits for a key in the queue which is longer than usual. The alarm begins as soon as sweep finds
    that the first in any queue has waited so long.
  EOT

  validation {
    condition     = var.wait_alarm_seconds >= 1 && var.wait_alarm_seconds <= 31536000 && floor(var.wait_alarm_seconds) == var.wait_alarm_seconds
    error_message = "Must be a whole number from 1 to 31536000."
  }
}

variable "queue_alarm_count" {
  type        = number
  default     = 64
  nullable    = false
  description = <<-EOT
    Number of waiters for one key which is more than usual; less than queue_cap. The alarm begins if it is reached twice
    within a quarter of an hour.
  EOT

  validation {
    condition     = var.queue_alarm_count >= 1 && var.queue_alarm_count <= 1000 && floor(var.queue_alarm_count) == var.queue_alarm_count
    error_message = "Must be a whole number from 1 to 1000."
  }
}

variable "take_over_alarm_count" {
  type        = number
  default     = 5
  nullable    = false
  description = <<-EOT
    Number of take-overs within five minutes that is more than your usual number of crashes. The alarm begins if it is
    reached twice within a quarter of an hour.
  EOT

  validation {
    condition     = var.take_over_alarm_count >= 1 && var.take_over_alarm_count <= 1000000 && floor(var.take_over_alarm_count) == var.take_over_alarm_count
    error_message = "Must be a whole number from 1 to 1000000."
  }
}

variable "failure_alarm_count" {
  type        = number
  default     = 5
  nullable    = false
  description = <<-EOT
    Number of executions of with-lease that fail or time out within five minutes which is more than usual. The alarm begins
    if it is reached twice within a quarter of an hour.
  EOT

  validation {
    condition     = var.failure_alarm_count >= 1 && var.failure_alarm_count <= 1000000 && floor(var.failure_alarm_count) == var.failure_alarm_count
    error_message = "Must be a whole number from 1 to 1000000."
  }
}

variable "sweep_alarm_seconds" {
  type        = number
  default     = 300
  nullable    = false
  description = <<-EOT
    Seconds without a run of sweep after which its alarm begins; up to a few times as long, because CloudWatch looks further
    back before it treats data as missing. At least three periods of sweep_schedule.
  EOT

  validation {
    condition     = contains([300, 900, 3600, 10800, 21600, 43200, 86400], var.sweep_alarm_seconds)
    error_message = "Must be one of 300, 900, 3600, 10800, 21600, 43200, 86400."
  }
}

variable "log_level" {
  type        = string
  default     = "INFO"
  nullable    = false
  description = <<-EOT
    How much the functions log. At WARN and ERROR, successful calls write no log line. Metrics are written at every level.
  EOT

  validation {
    condition     = contains(["INFO", "WARN", "ERROR"], var.log_level)
    error_message = "Must be one of INFO, WARN, ERROR."
  }
}

variable "log_retention_days" {
  type        = number
  default     = 30
  nullable    = false
  description = "Days the functions' logs are kept."

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Must be one of 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653."
  }
}

variable "tracing" {
  type        = string
  default     = "PassThrough"
  nullable    = false
  description = <<-EOT
    With Active, X-Ray traces invocations of the functions, and their roles may send it traces. With PassThrough the caller
    decides, and the roles need no permission.
  EOT

  validation {
    condition     = contains(["PassThrough", "Active"], var.tracing)
    error_message = "Must be one of PassThrough, Active."
  }
}

variable "machine_logging" {
  type        = string
  default     = "OFF"
  nullable    = false
  description = <<-EOT
    ERROR logs failures of the state machines, without the data of the executions. It gives their roles the permissions of
    log delivery, which can only be granted for all log groups.
  EOT

  validation {
    condition     = contains(["OFF", "ERROR"], var.machine_logging)
    error_message = "Must be one of OFF, ERROR."
  }
}

# How it is built and kept

variable "architecture" {
  type        = string
  default     = "arm64"
  nullable    = false
  description = "Instruction set of all functions; build for the same one (make build ARCH=...)."

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Must be one of arm64, x86_64."
  }
}

variable "name_prefix" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    Prefix of the state machines' names, before a hyphen. Empty: the stack's name. That may then have 63 characters, because
    Step Functions allows 80; set a prefix for a nested stack, whose name is longer.
  EOT

  validation {
    condition     = can(regex("^([a-zA-Z0-9_-]{0,63})$", var.name_prefix))
    error_message = "Must match ^([a-zA-Z0-9_-]{0,63})$."
  }
}

variable "kms_key_arn" {
  type        = string
  default     = ""
  nullable    = false
  description = <<-EOT
    ARN of a key of yours that encrypts table, queues and logs. Its key policy has to allow this account's roles (those here
    have the permission) and the services logs and events to use it; docs/reference/permissions.md has the statements.
    Empty: keys of the services.
  EOT

  validation {
    condition     = can(regex("^(|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+)$", var.kms_key_arn))
    error_message = "Must match ^(|arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]+)$."
  }
}

variable "permissions_boundary_arn" {
  type        = string
  default     = ""
  nullable    = false
  description = "ARN of the permissions boundary of every role here; empty if there is none."

  validation {
    condition     = can(regex("^(|arn:[a-z-]+:iam::[0-9]{12}:policy/[a-zA-Z0-9+=,.@_/-]+)$", var.permissions_boundary_arn))
    error_message = "Must match ^(|arn:[a-z-]+:iam::[0-9]{12}:policy/[a-zA-Z0-9+=,.@_/-]+)$."
  }
}

variable "subnet_ids" {
  type        = list(string)
  default     = []
  nullable    = false
  description = <<-EOT
    Subnets in which the functions run. They need routes to DynamoDB and Step Functions, and to X-Ray if tracing is Active.
    Empty: no VPC, which nothing here needs.
  EOT
}

variable "security_group_ids" {
  type        = list(string)
  default     = []
  nullable    = false
  description = "Security groups of the functions in those subnets."
}

variable "deletion_protection" {
  type        = bool
  default     = true
  nullable    = false
  description = <<-EOT
    Whether DynamoDB refuses to delete the table. With false in a stack's first deploy, a deploy that fails leaves no table
    behind; afterwards deploy with true.
  EOT
}

# Concurrency

variable "reap_queue_concurrency" {
  type        = number
  default     = 5
  nullable    = false
  description = <<-EOT
    Number of batches of ended executions that reap takes from its queue at once. If reserved_concurrency.reap is given, at
    most as many.
  EOT

  validation {
    condition     = var.reap_queue_concurrency >= 2 && var.reap_queue_concurrency <= 1000 && floor(var.reap_queue_concurrency) == var.reap_queue_concurrency
    error_message = "Must be a whole number from 2 to 1000."
  }
}

variable "reserved_concurrency" {
  type        = map(number)
  default     = {}
  nullable    = false
  description = "Reserved concurrency of functions, which is also their maximum, by name, such as { extend = 10, release = 10 }."

  validation {
    condition     = alltrue([for name in keys(var.reserved_concurrency) : contains(["start", "acquire", "extend", "release", "sweep", "reap", "inspect", "operate"], name)])
    error_message = "Only these functions have one: start, acquire, extend, release, sweep, reap, inspect, operate."
  }
}

# Others

variable "more_parameters" {
  type        = map(string)
  default     = {}
  nullable    = false
  description = "Parameters of a newer template that have no variable here, by their names in the template."
}

variable "tags" {
  type        = map(string)
  default     = {}
  nullable    = false
  description = "Tags of the stack, which CloudFormation adds to every resource that supports tags."
}
