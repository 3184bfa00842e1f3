/**
 * Leases of Leasehold from TypeScript: acquire, extend and release by the Lambda functions of the stack, and starts under leases.
 *
 * Install the package `leasehold`, or copy this file. It imports nothing; you pass in the `Lambda` of @aws-sdk/client-lambda, or
 * whatever invokes like it.
 *
 *     const leases = new Leasehold(new Lambda({}), { acquire: ARN, extend: ARN, release: ARN, holder: "billing" });
 *     await leases.withLease({ key: "orders/42", ttlSeconds: 60 }, async (lease) => {
 *       await stepOne();
 *       await lease.extend(); // between steps; throws LeaseLost if the lease is lost
 *       await stepTwo();
 *     });
 *
 * Nothing runs in the background: no timer extends a lease. If the process dies, its key stays held until the ttl and
 * the clock margin have passed.
 */

export interface Invoked { FunctionError?: string | undefined; Payload?: Uint8Array | undefined }
/** The part of a Lambda client that this file needs, as `Lambda` of @aws-sdk/client-lambda. */
export interface Invoker {
  invoke(input: { FunctionName: string; Payload: Uint8Array }): Promise<Invoked>;
}

/**
 * The handle of a lease, as the functions write it. `lease_id` is a secret. An execution lease has `lifetime` "execution" in
 * place of a length and a deadline.
 */
export interface Handle {
  key: string; holder: string; lease_id: string; fencing_token: number; version: number; lifetime?: "ttl" | "execution";
  ttl_seconds?: number; acquired_at: string; expires_at?: string; safe_until?: string; permit: number; reentered?: boolean; metadata: Record<string, string>;
}

/** The grant before this one. If `ended` is not "released", repair what its holder left half done. */
export interface Previous { holder: string; fencing_token: number; ended: "released" | "expired" | "forced" }

export type Details = Record<string, unknown>;

/** A call failed. `name` is the error's name in the contract; `details` is the whole error message of the function. */
export class LeaseError extends Error {
  readonly details: Details;
  constructor(message: string, details: Details = {}, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.contractName;
    this.details = details;
  }
  static readonly contractName: string = "Lease.Error";
}
/**
 * Another holder holds the key. `details` has holder, expires_at, retry_at, wait_seconds and more. Or nobody does, and it is in a
 * cooldown after its last grant: then `details` has opens_at in place of expires_at.
 */
export class LeaseHeld extends LeaseError { static override readonly contractName = "Lease.Held"; }
/** This request already had its lease, and that lease has ended: a late duplicate. Stop. */
export class LeaseConsumed extends LeaseError { static override readonly contractName = "Lease.Consumed"; }
/** Your grant has ended. Stop the work, then repair or acquire again; never retry. */
export class LeaseLost extends LeaseError { static override readonly contractName = "Lease.Lost"; }
/** The lease expired and no one took it, but you required an unexpired one. Handle it as LeaseLost. */
export class LeaseExpired extends LeaseError { static override readonly contractName = "Lease.Expired"; }
/** The request waited in the queue for its wait_seconds. Give up. */
export class LeaseQueueTimeout extends LeaseError { static override readonly contractName = "Lease.QueueTimeout"; }
/** A later request or start took this one's place in the queue. Nothing to do: the later one does the work. */
export class LeaseSuperseded extends LeaseError { static override readonly contractName = "Lease.Superseded"; }
/** The queue is full. Come back later. */
export class LeaseQueueFull extends LeaseError { static override readonly contractName = "Lease.QueueFull"; }
/** The start has failed, and its execution will not begin. Mend the cause, then repeat the start. */
export class LeaseNotStarted extends LeaseError { static override readonly contractName = "Lease.NotStarted"; }
/** An operator froze the key. Wait for the operator. */
export class LeaseFrozen extends LeaseError { static override readonly contractName = "Lease.Frozen"; }
/** The request is malformed; `details.field` names the field. */
export class LeaseInvalid extends LeaseError { static override readonly contractName = "Lease.Invalid"; }
/** The stored item is not a lease. An operator must look. */
export class LeaseCorrupt extends LeaseError { static override readonly contractName = "Lease.Corrupt"; }
/** IAM or credentials of the function. An operator must act. */
export class LeaseDenied extends LeaseError { static override readonly contractName = "Lease.Denied"; }
/** No such table, wrong keys, or a bad environment of the function. An operator must act. */
export class LeaseMisconfigured extends LeaseError { static override readonly contractName = "Lease.Misconfigured"; }
/** The table or Lambda throttled the call and all its retries. */
export class LeaseThrottled extends LeaseError { static override readonly contractName = "Lease.Throttled"; }
/** The outcome is unknown: the call may have taken effect or not. Repeat the same request to resolve it. */
export class LeaseUnavailable extends LeaseError { static override readonly contractName = "Lease.Unavailable"; }

type ErrorClass = { new (message: string, details?: Details, options?: { cause?: unknown }): LeaseError; contractName: string };
/** The classes by the names of the contract. */
export const ERRORS: ReadonlyMap<string, ErrorClass> = new Map([LeaseHeld, LeaseConsumed, LeaseLost, LeaseExpired,
  LeaseQueueTimeout, LeaseSuperseded, LeaseQueueFull, LeaseNotStarted, LeaseFrozen, LeaseInvalid, LeaseCorrupt, LeaseDenied, LeaseMisconfigured,
  LeaseThrottled, LeaseUnavailable].map((kind: ErrorClass) => [kind.contractName, kind]));

/**
 * The parts of a fenced write: UpdateItem then refuses a holder whose token is smaller than the largest that the item has seen.
 * Join `condition` with yours by " AND ", `assignment` by ", ". `values` are for the document client, `typedValues` for
 * the plain one.
 */
export function fence(token: number) {
  return {
    condition: "(attribute_not_exists(#fence) OR #fence <= :fencing_token)",
    assignment: "#fence = :fencing_token",
    names: { "#fence": "fence" },
    values: { ":fencing_token": token },
    typedValues: { ":fencing_token": { N: String(token) } },
  };
}

/** A granted lease. Keep its handle secret: it can extend and release the lease. */
export class Lease {
  #leases: Leasehold;
  #handle: Handle;
  /** "new", "replayed", "reentered" or "takeover"; undefined if it was resumed. */
  readonly grant: string | undefined;
  readonly previous: Previous | null;

  constructor(leases: Leasehold, handle: Handle, grant?: string, previous: Previous | null = null) {
    this.#leases = leases;
    this.#handle = handle;
    this.grant = grant;
    this.previous = previous;
  }
  get key(): string { return this.#handle.key; }
  get holder(): string { return this.#handle.holder; }
  get fencingToken(): number { return this.#handle.fencing_token; }
  get permit(): number { return this.#handle.permit; }
  /** Undefined for an execution lease, which lasts while the execution that holds it runs. */
  get ttlSeconds(): number | undefined { return this.#handle.ttl_seconds; }
  /** The instant at which to stop touching the resource. */
  get safeUntil(): Date | undefined { return this.#handle.safe_until === undefined ? undefined : new Date(this.#handle.safe_until); }

  /** The handle as JSON data, for `Leasehold.resume` in another process. It contains the secret. */
  handle(): Handle { return { ...this.#handle }; }
  /** Without the secret. */
  toJSON(): Omit<Handle, "lease_id"> {
    const { lease_id: _, ...shown } = this.#handle;
    return shown;
  }
  /** Seconds until `safeUntil`, by this machine's clock; 0 if it has passed. */
  remaining(): number {
    const until = this.safeUntil;
    return until === undefined ? Infinity : Math.max(0, (until.getTime() - this.#leases.now()) / 1000);
  }

  /** Moves the deadline and confirms that the lease is still held. */
  async extend(options: { ttlSeconds?: number | undefined; requireUnexpired?: boolean | undefined } = {}): Promise<"extended" | "revived"> {
    const event = { lease: this.#handle, ttl_seconds: options.ttlSeconds, require_unexpired: options.requireUnexpired };
    const answer = await this.#leases.call("extend", event);
    this.#handle = answer.lease as Handle;
    return answer.outcome as "extended" | "revived";
  }
  /** Releases the lease; a re-entered one is kept. With `strict`, a lost lease throws LeaseLost. */
  async release(options: { strict?: boolean | undefined } = {}): Promise<"released" | "already_released" | "lost" | "kept"> {
    const answer = await this.#leases.call("release", { lease: this.#handle, strict: options.strict });
    return answer.outcome as "released" | "already_released" | "lost" | "kept";
  }
}

export interface Options {
  /** The functions' names or ARNs: the stack's outputs AcquireFunctionArn, … */
  acquire: string; extend: string; release: string;
  /** The same of StartFunction, if `start` is used. */
  start?: string | undefined;
  /** A client of Step Functions, if `start` is to wait for results. */
  stepFunctions?: Describer | undefined;
  /** The holder, unless an acquire names another one. */
  holder: string;
  attempts?: number | undefined;
  now?: (() => number) | undefined;
  sleep?: ((milliseconds: number) => Promise<void>) | undefined;
}

interface Common {
  ttlSeconds: number; holder?: string | undefined; metadata?: Record<string, string> | undefined; reentrant?: boolean | undefined;
  /**
   * The same holder and requestId get the same lease, and LeaseConsumed once it has ended. Pass it to repeat an acquire that
   * ended with LeaseUnavailable.
   */
  requestId?: string | undefined;
  /** Cooldown: for how long after the grant the key is not granted again, in seconds, even if the lease is released before. */
  atLeastSeconds?: number | undefined;
}
export interface Acquire extends Common {
  key: string; permits?: number | undefined; observedVersion?: number | undefined;
  /**
   * Ask again for so many seconds while another holder has the key, after pauses with full jitter, each of which is an invocation.
   * Default: do not.
   */
  waitSeconds?: number | undefined;
  /** The context of the Lambda function that asks: the wait ends two seconds before the function's time does. */
  context?: { getRemainingTimeInMillis(): number } | undefined;
}
export interface AcquireAll extends Common { keys: string[] }
/** A limit that many keys share: the work takes its key first, and then a permit of the pool. */
export interface Pool {
  name: string;
  /** How many may have a permit of the pool at once. */
  permits: number;
}
export interface JoinQueue extends Omit<Common, "reentrant" | "ttlSeconds"> {
  key: string; requestId: string; taskToken: string; waitSeconds: number; permits?: number | undefined;
  /** How long the lease stays after a failure of the execution, in seconds. */
  keepSeconds?: number | undefined;
  /** A permit of this pool besides the key. */
  pool?: Pool | undefined;
  /** With "latest" only the newest waits: the tasks of those who wait already fail with Lease.Superseded. */
  ifHeld?: "wait" | "latest" | undefined;
}

export interface Start {
  key: string; stateMachineArn: string; input?: unknown;
  /** How many executions may have the key at once; if left out, one at a time with others that leave it out. */
  permits?: number | undefined;
  /** A permit of this pool besides the key. */
  pool?: Pool | undefined;
  /**
   * The execution's name: the same key, machine, name and input start once. Pass it to repeat a start that ended with
   * LeaseUnavailable. If left out, it is random.
   */
  name?: string | undefined;
  /**
   * What to do while somebody else has the key: "wait" (the default); "latest", which supersedes those who wait already;
   * "replace", which also stops an execution that was started under the key; "fail" with LeaseHeld; or "skip".
   */
  ifHeld?: "wait" | "latest" | "fail" | "skip" | "replace" | undefined;
  /** How long to wait, in seconds. */
  waitSeconds?: number | undefined;
  /** How long the key stays with the execution after a failure, in seconds. */
  keepSeconds?: number | undefined;
  /** Whether the input also has `leasehold`, with key and fencing token; "handle" adds the lease too, to release it early. */
  passLease?: boolean | "handle" | undefined;
  /** Cooldown: for how long after the grant the key is not granted again, in seconds, even if the execution ends before. */
  atLeastSeconds?: number | undefined;
  metadata?: Record<string, string> | undefined;
  /**
   * Return when the execution has ended, with its `output`, or throw ExecutionFailed if it did not succeed. It asks `stepFunctions`,
   * at intervals of up to ten seconds.
   */
  wait?: boolean | undefined;
}
/** The part of a Step Functions client that waiting for a result needs, as `SFN` of @aws-sdk/client-sfn. */
export interface Describer {
  describeExecution(input: { executionArn: string }): Promise<{
    status?: string | undefined; output?: string | undefined; error?: string | undefined; cause?: string | undefined;
  }>;
}
/** An execution that was waited for has failed, was stopped, or has timed out, as its `status` says. */
export class ExecutionFailed extends Error {
  readonly executionArn: string;
  readonly status: string;
  readonly error: string | undefined;
  override readonly cause: string | undefined;

  constructor(executionArn: string, status: string, error: string | undefined, cause: string | undefined) {
    super(`${executionArn} is ${status}: ${error ?? "no error"}: ${cause ?? "no cause"}`);
    this.name = "ExecutionFailed";
    this.executionArn = executionArn;
    this.status = status;
    this.error = error;
    this.cause = cause;
  }
}
/** What became of a start, and who has the key, if somebody else has. */
export interface Started {
  outcome: "started" | "queued" | "skipped" | "superseded"; executionArn: string; held: Details | undefined;
  /** The execution that came later and waited instead, of a repeated call whose outcome is "superseded". */
  by: string | undefined;
  /** What the execution came to, if the call has waited for it. */
  output?: unknown;
}

/** When the SDK of durable functions repeats a step. */
type Retries = (error: Error, attempt: number) => { shouldRetry: boolean; delay?: { seconds: number } };
/**
 * The part of a durable function's context that `withLease` needs, as `DurableContext` of @aws/durable-execution-sdk-js, version 2
 * or later.
 */
export interface DurableContext {
  executionContext: { readonly durableExecutionArn: string };
  step<T>(name: string, work: () => Promise<T>, config: { retryStrategy: Retries }): PromiseLike<T>;
  createCallback(
    name: string, config: { timeout: { seconds: number }; serdes: { deserialize(text: string | undefined): Promise<string | undefined> } },
  ): PromiseLike<[answer: PromiseLike<string>, callbackId: string]>;
}
export interface DurableLease {
  /** How long to wait for the key, in seconds. */
  waitSeconds: number;
  /** How many may have the key at once; if left out, one. */
  permits?: number | undefined;
  /** A permit of this pool besides the key. */
  pool?: Pool | undefined;
  /** Cooldown: for how long after the grant the key is not granted again, in seconds, even if the lease is released before. */
  atLeastSeconds?: number | undefined;
  metadata?: Record<string, string> | undefined;
  /** Whether only the newest waits: then those who wait already get LeaseSuperseded. */
  latest?: boolean | undefined;
  /** What the operations are called in the execution's history; "lease" if left out. */
  name?: string | undefined;
}

/** What is called by its name. */
type Name = "acquire" | "extend" | "release" | "start";

/**
 * Calls the functions of one stack. A throttled or lost call is repeated unchanged, up to `attempts` times in all
 * (4), with backoff and full jitter. That is safe: an acquire has its request id, a start its name, and extend and release are
 * idempotent.
 */
export class Leasehold {
  #lambda: Invoker;
  #options: Options;

  constructor(lambda: Invoker, options: Options) {
    this.#lambda = lambda;
    this.#options = options;
  }
  now(): number { return (this.#options.now ?? Date.now)(); }

  /** Acquires the lease of a key. Throws LeaseHeld if another holder holds it, after `waitSeconds` if given. */
  async acquire(request: Acquire): Promise<Lease> {
    const { waitSeconds = 0, context, ...asked } = request;
    // All attempts are one request, so that a lost response is found by the next.
    const event = { ...asked, requestId: asked.requestId ?? crypto.randomUUID() };
    const left = context === undefined ? Infinity : context.getRemainingTimeInMillis() - RESERVE;
    const until = this.now() + Math.min(1000 * waitSeconds, left);
    for (let longest = FIRST_PAUSE; ; longest = Math.min(LONGEST_PAUSE, 2 * longest)) {
      try {
        return this.#granted(await this.#acquire(event));
      } catch (error) {
        if (!(error instanceof LeaseHeld) || this.now() >= until) throw error;
        await this.#sleep(pause(error, longest, this.now(), until));
      }
    }
  }
  /** Acquires the leases of all keys or of none, in their order. Each is extended and released by itself. */
  async acquireAll(request: AcquireAll): Promise<Lease[]> {
    const answer = await this.#acquire(request);
    const previous = answer.previous as (Previous | null)[];
    return (answer.leases as Handle[]).map((handle, at) => new Lease(this, handle, answer.grant as string, previous[at] ?? null));
  }
  /**
   * Joins the queue for a task of an execution. The lease goes to the task token: `resume` it there. It lasts while the
   * holder runs, which is the ARN of the execution, and `keepSeconds` longer if that fails.
   */
  async joinQueue(request: JoinQueue): Promise<Details> {
    return this.#acquire(request);
  }
  /**
   * Starts an execution as soon as it can have the key: now, or when those before it have ended. Throws LeaseNotStarted if the
   * start has failed: Step Functions refuses it, or the key was not free in time.
   */
  async start({ wait, ...request }: Start): Promise<Started> {
    const client = this.#options.stepFunctions;
    if (wait && client === undefined) throw new Error("this client cannot wait: pass stepFunctions, new SFN({})");
    const event = { name: crypto.randomUUID(), ...fieldsOf(request) };
    for (let pause = 1000; ; pause = Math.min(10_000, 1.5 * pause)) {
      const answer = await this.call("start", event);
      const { outcome, execution_arn: executionArn, held, by } = answer as
        { outcome: Started["outcome"]; execution_arn: string; held?: Details; by?: string };
      const started = { outcome, executionArn, held, by };
      if (!wait || client === undefined || outcome === "skipped" || outcome === "superseded") return started;
      // One that waits in the queue is asked for again: the same call says whether it has failed meanwhile.
      while (outcome === "started") {
        const { status = "", output = "null", error, cause } = await client.describeExecution({ executionArn });
        if (status === "SUCCEEDED") return { ...started, output: JSON.parse(output) as unknown };
        if (status !== "RUNNING" && status !== "PENDING_REDRIVE") throw new ExecutionFailed(executionArn, status, error, cause);
        await this.#sleep(pause);
        pause = Math.min(10_000, 1.5 * pause);
      }
      await this.#sleep(pause);
    }
  }
  /** The lease of a handle that another process acquired. Calls no function. */
  resume(handle: Handle): Lease { return new Lease(this, handle); }

  /**
   * Acquires the lease, and releases it after `work`. The caller receives an error of `work` unchanged. If `work` succeeds
   * but another holder was granted the key meanwhile, it throws LeaseLost.
   */
  withLease<T>(request: Acquire, work: (lease: Lease) => Promise<T>): Promise<T>;
  /**
   * In a durable function of Lambda: waits for the lease, calls `work` with it, releases it, and returns the work's result.
   *
   * `work` does its steps and waits with the same context. No compute is paid for while the function waits, for the key or in `work`.
   * Each replay calls `work` again, with the same lease, and a late one after the release: what needs the lease belongs into steps.
   *
   * The lease belongs to the durable execution and lasts until it is released or the execution has ended, however that ends.
   *
   * Throws what acquire refuses, and LeaseQueueTimeout after `waitSeconds`. If all attempts to ask were throttled or lost, it waits
   * all the same, and up to ten minutes longer: one of them may have joined the queue.
   *
   * The caller receives an error of `work` unchanged. LeaseLost after `work` says that the lease was taken away meanwhile, or,
   * rarely, that the response of the release was lost and others had the key since. A release that fails is only seen in the history.
   *
   * Not re-entrant: in `work`, a lease of the same key waits for the one that the execution has. Leases side by side need a child
   * context each, as `context.parallel` gives.
   */
  withLease<T>(context: DurableContext, key: string, work: (lease: Lease) => Promise<T>, options: DurableLease): Promise<T>;
  async withLease<T>(
    ...given: [Acquire, (lease: Lease) => Promise<T>] | [DurableContext, string, (lease: Lease) => Promise<T>, DurableLease]
  ): Promise<T> {
    return given.length === 2 ? this.#withLease(...given) : this.#withDurableLease(...given);
  }

  async #withLease<T>(request: Acquire, work: (lease: Lease) => Promise<T>): Promise<T> {
    const lease = await this.acquire(request);
    let result: T;
    try {
      // If the response took a whole ttl: revive the lease, or fail if it is lost.
      if (lease.remaining() === 0) await lease.extend();
      result = await work(lease);
    } catch (error) {
      await lease.release().catch(() => undefined); // The work's own error matters more. The lease ends with its ttl.
      throw error;
    }
    await lease.release({ strict: true });
    return result;
  }

  // The SDK suspends the function by a promise that never settles: then neither `catch` nor what follows runs.
  async #withDurableLease<T>(
    context: DurableContext, key: string, work: (lease: Lease) => Promise<T>, options: DurableLease,
  ): Promise<T> {
    const { name = "lease", latest = false, ...asked } = options;
    const holder = executionArn(context.executionContext.durableExecutionArn);
    // No waitForCallback: a step that fails would end its wait.
    const [answer, callbackId] = await context.createCallback(name, {
      timeout: { seconds: Math.ceil(options.waitSeconds) + ANSWER_SECONDS },
      // Also if the function has another default.
      serdes: { deserialize: async (text) => text },
    });
    const request = { ...asked, key, holder, callbackId, ifHeld: latest ? "latest" : undefined };
    const ask = async (): Promise<void> => {
      try {
        // A repeated step has the same callback, so it is the same request and keeps its place in the queue. The callback's id lets
        // everybody who may answer callbacks answer this one: a request id may be logged, so it is only a digest.
        await this.#acquire({ ...request, requestId: await digest(callbackId) });
      } catch (error) {
        // Of a step's error the SDK keeps only the text.
        if (error instanceof LeaseError) error.message = payload(error);
        throw error;
      }
    };
    try {
      await context.step(`${name} acquire`, ask, { retryStrategy: retries });
    } catch (error) {
      const refused = refusal(error, key, options.waitSeconds);
      // An attempt may have taken effect, also if the last was throttled: then the callback is answered all the same.
      if (!isPassing(refused)) throw refused;
    }
    let granted: string;
    try {
      granted = await answer;
    } catch (error) {
      throw refusal(error, key, options.waitSeconds);
    }
    const lease = this.#granted(JSON.parse(granted) as Details);
    // If it fails for good, what the work did matters more. Sweep's look ends the lease after the execution.
    const release = () =>
      context.step(`${name} release`, () => lease.release(), { retryStrategy: retries }).then((outcome) => outcome, () => undefined);
    let result: T;
    try {
      result = await work(lease);
    } catch (error) {
      await release();
      throw error;
    }
    if ((await release()) === "lost") {
      throw new LeaseLost(`${key}: the lease was taken away, or its release had no answer and others had the key since`, { key });
    }
    return result;
  }

  #granted(answer: Details): Lease {
    return new Lease(this, answer.lease as Handle, answer.grant as string, answer.previous as Previous | null);
  }

  async #sleep(milliseconds: number): Promise<void> {
    await (this.#options.sleep ?? ((time: number) => new Promise<void>((done) => setTimeout(done, time))))(milliseconds);
  }

  async #acquire(request: Acquire | AcquireAll | JoinQueue | (DurableLease & { callbackId: string })): Promise<Details> {
    return this.call("acquire", { holder: this.#options.holder, request_id: crypto.randomUUID(), ...fieldsOf(request) });
  }

  /** Invokes a function; what is undefined of the event is left out. */
  async call(name: Name, event: object): Promise<Details> {
    const payload = new TextEncoder().encode(JSON.stringify(event));
    for (let attempt = 1; attempt < (this.#options.attempts ?? 4); attempt += 1) {
      try {
        return await this.#invoke(name, payload);
      } catch (error) {
        if (!isPassing(error)) throw error;
        await this.#sleep(Math.random() * Math.min(2000, 100 * 2 ** attempt));
      }
    }
    return this.#invoke(name, payload);
  }

  async #invoke(name: Name, payload: Uint8Array): Promise<Details> {
    const FunctionName = this.#options[name];
    if (FunctionName === undefined) throw new TypeError(`this client has no ${name}: pass it to the constructor`);
    const response = await this.#lambda.invoke({ FunctionName, Payload: payload }).catch((error: unknown) => {
      throw transportError(name, error);
    });
    const answer = JSON.parse(new TextDecoder().decode(response.Payload)) as Details;
    if (response.FunctionError !== undefined) throw functionError(answer);
    return answer;
  }
}

/** The pauses of an acquire that waits, and what it leaves of a Lambda function's time, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE, RESERVE] = [500, 10_000, 2000];

/** Full jitter; not much longer than until the lease may be taken over, and not longer than there is time. */
function pause(held: LeaseHeld, longest: number, now: number, until: number): number {
  const expires = Date.parse(String(held.details.retry_at)) - now;
  const jitter = Math.random() * longest;
  return Math.min(expires > 0 ? Math.min(jitter, expires + Math.random() * FIRST_PAUSE) : jitter, until - now);
}

/** The request's fields under the contract's names: `ttlSeconds` is `ttl_seconds`. */
function fieldsOf(request: object): Details {
  const given = Object.entries(request).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(given.map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]));
}

/**
 * How much later than the queue the callback of a durable function gives up. The request may come 375 seconds late: six attempts of
 * four invocations, each of which acquire ends after ten seconds, and pauses of 135 in all. Sweep answers for the queue once a minute.
 */
const ANSWER_SECONDS = 600;

/** Whether repeating can mend it. */
const isPassing = (error: unknown) => error instanceof LeaseThrottled || error instanceof LeaseUnavailable;

/** As the default of the SDK of durable functions, but only for what repeating can mend. */
const retries: Retries = (error, attempt) => ({
  shouldRetry: attempt < 6 && isPassing(error),
  delay: { seconds: Math.ceil(Math.random() * Math.min(60, 5 * 2 ** (attempt - 1))) || 1 },
});

/**
 * The ARN of a durable execution. AWS's local runner gives "NAME/ID", which acquire would refuse: so that tests with it work against
 * a local stack, these get an ARN, whose account and function do not exist.
 */
function executionArn(execution: string): string {
  if (execution.startsWith("arn:")) return execution;
  return `arn:aws:lambda:us-east-1:123456789012:function:local:$LATEST/durable-execution/${execution}`;
}

/** SHA-256, in hexadecimal. */
async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The error as a failed function would write it. */
function payload(error: LeaseError): string {
  return JSON.stringify({ errorType: error.name, errorMessage: JSON.stringify({ ...error.details, message: error.message }) });
}

/** Why a durable function did not get its lease, from the SDK's error. What is no matter of leases is not changed. */
function refusal(error: unknown, key: string, waitSeconds: number): unknown {
  const sdk = error as { errorType?: string; errorData?: string | null; message?: string };
  if (sdk.errorType === "CallbackTimeoutError") {
    // The request did not arrive, or the queue's own answer was lost. It is too late for any other, so there is nothing to repeat.
    return new LeaseQueueTimeout(`${key}: no answer came within ${waitSeconds} seconds, nor soon after`, { key }, { cause: error });
  }
  try {
    const told = JSON.parse(sdk.errorData ?? sdk.message ?? "") as Details;
    return ERRORS.has(String(told.errorType)) ? functionError(told, { cause: error }) : error;
  } catch {
    return error; // It has no such payload.
  }
}

function functionError(answer: Details, options?: { cause: unknown }): LeaseError {
  const [name, text] = [String(answer.errorType), String(answer.errorMessage ?? "")];
  const kind = ERRORS.get(name);
  // No error of the contract: the function was killed, or ran out of time or memory, perhaps after its write.
  if (kind === undefined) return new LeaseUnavailable(`${name}: ${text}; the outcome is unknown: repeat the same request`);
  const details = JSON.parse(text) as Details;
  return new kind(String(details.message), details, options);
}

/** The error for an invocation that was throttled or lost. Any other error reaches the caller unchanged. */
function transportError(name: string, error: unknown): unknown {
  const sdk = error as { $metadata?: { httpStatusCode?: number }; $fault?: string; name?: string; message?: string; code?: string };
  const status = sdk.$metadata?.httpStatusCode;
  const message = `${name}: ${sdk.message ?? String(error)}`;
  if (status === 429) return new LeaseThrottled(message, {}, { cause: error });
  const lost = ["TimeoutError", "AbortError", "NetworkingError"].includes(sdk.name ?? "") || /^(ECONN|EPIPE|ETIMEDOUT|UND_ERR)/.test(sdk.code ?? "");
  return (status ?? 0) >= 500 || lost ? new LeaseUnavailable(message, {}, { cause: error }) : error;
}
