// The properties of a guard and of a section.

/** What happens while somebody else has the key. */
export enum IfHeld {
  /** Wait in the queue, first come, first served. */
  WAIT = 'wait',
  /** Wait in the queue, and supersede everybody who waits there already: their guard fails with `Lease.Superseded`, their section succeeds, and both do nothing. */
  LATEST = 'latest',
  /** Stop the holder, and then wait as with `LATEST`. For a guard without permits. */
  REPLACE = 'replace',
  /** Fail at once, with `Lease.Held`. */
  FAIL = 'fail',
  /** Succeed at once, and do nothing. */
  SKIP = 'skip',
}

/** What a guard and a section have in common. */
export interface LeaseProps {
  /**
   * What to do while somebody else has the key.
   *
   * @default IfHeld.WAIT
   */
  readonly ifHeld?: IfHeld;
  /**
   * How long to wait, in seconds, with `WAIT`, `LATEST` and `REPLACE`.
   *
   * @default - 3600 for a section, 86400 for a guard
   */
  readonly waitSeconds?: number;
  /**
   * How many may have the key at once.
   *
   * @default - one
   */
  readonly permits?: number;
  /**
   * Cooldown: for how long after each grant the key is not granted again, in seconds, even if the work ends before.
   *
   * @default 0
   */
  readonly atLeastSeconds?: number;
  /**
   * How long the lease stays for a redrive, in seconds, after the execution has failed, was stopped or timed out.
   *
   * @default 0
   */
  readonly keepSeconds?: number;
}

export interface GuardProps extends LeaseProps {
  /** The key of the lease: a text, or a JSONata expression such as `{% 'orders/' & $states.input.order %}`. */
  readonly key: string;
  /**
   * A permit of this pool besides the key.
   *
   * @default - none
   */
  readonly pool?: Pool;
  /**
   * Whether the child's input gets the key and its fencing token, under `leasehold`.
   *
   * @default false
   */
  readonly passLease?: boolean;
  /**
   * The child's input: a value, or a JSONata expression.
   *
   * @default - the state's own input
   */
  readonly input?: any;
  /**
   * The name of the state.
   *
   * @default - `Guard` and the child's id
   */
  readonly stateName?: string;
}

/** A limit that many keys share. */
export interface Pool {
  /** Its name: a text, or a JSONata expression. */
  readonly name: string;
  /** How many may have a permit of it at once. */
  readonly permits: number;
}

export interface SectionProps extends LeaseProps {
  /** The key of the lease: a text, or a JSONata expression such as `{% 'orders/' & $states.input.order %}`. */
  readonly key: string;
  /**
   * A permit of this pool besides the key. The section takes its key first.
   *
   * @default - none
   */
  readonly pool?: Pool;
  /**
   * Texts about the holder that others can see. Each may be a JSONata expression.
   *
   * @default - none
   */
  readonly metadata?: { [name: string]: string };
}
