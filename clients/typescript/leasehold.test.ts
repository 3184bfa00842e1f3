/**
 * Runs the contract's scenes with leasehold.ts on the local stack. `proof/tests/clients.rs` starts both.
 *
 * Prints a line for each scene that holds. The stack's endpoints come from the environment; functions are invoked by fetch.
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { inspect } from "node:util";
import * as leasehold from "./leasehold.ts";
import { ERRORS, Leasehold, fence, type Describer, type Handle, type Invoker, type Lease } from "./leasehold.ts";

const { AWS_ENDPOINT_URL_LAMBDA, AWS_ENDPOINT_URL_DYNAMODB, AWS_SESSION_TOKEN, EVENTS, SCHEMAS, GOLDEN, NOTIFIED } = process.env as Record<
  string,
  string
>;
const SIGNED = { "x-amz-security-token": AWS_SESSION_TOKEN! };

/** The part of an SDK's error about the HTTP response. */
function refused(name: string, httpStatusCode: number): Error {
  return Object.assign(new Error(name), { name, $metadata: { httpStatusCode } });
}

const LAMBDA: Invoker = {
  async invoke({ FunctionName, Payload }) {
    const url = `${AWS_ENDPOINT_URL_LAMBDA}/2015-03-31/functions/${FunctionName}/invocations`;
    const answer = await fetch(url, { method: "POST", headers: SIGNED, body: new TextDecoder().decode(Payload) });
    if (!answer.ok) throw refused(answer.headers.get("x-amzn-errortype") ?? "", answer.status);
    const failed = answer.headers.get("x-amz-function-error");
    const body = new Uint8Array(await answer.arrayBuffer());
    return failed === null ? { Payload: body } : { FunctionError: failed, Payload: body };
  },
};
const NAMES = { acquire: "AcquireFunction", extend: "ExtendFunction", release: "ReleaseFunction", start: "StartFunction" };
const slept: number[] = [];

function client(holder = "me", invoker = LAMBDA, attempts = 4): Leasehold {
  return new Leasehold(invoker, { ...NAMES, holder, attempts, sleep: async (time) => void slept.push(time) });
}
const [me, other] = [client("me"), client("other")];

async function opens(key: string): Promise<boolean> {
  const answer = await LAMBDA.invoke({ FunctionName: "InspectFunction", Payload: new TextEncoder().encode(JSON.stringify({ key })) });
  return "opens_at" in JSON.parse(new TextDecoder().decode(answer.Payload));
}

async function operate(operation: string, key: string): Promise<void> {
  const event = JSON.stringify({ operation, key, who: "night shift", why: "a test" });
  const answer = await LAMBDA.invoke({ FunctionName: "OperateFunction", Payload: new TextEncoder().encode(event) });
  assert.equal(answer.FunctionError, undefined);
}

async function throws(name: keyof typeof leasehold, work: Promise<unknown>): Promise<leasehold.LeaseError> {
  const kind = leasehold[name] as typeof leasehold.LeaseError;
  const error: unknown = await work.then((result) => assert.fail(`no ${name}, but ${inspect(result)}`), (error: unknown) => error);
  assert(error instanceof leasehold.LeaseError, inspect(error));
  assert.equal(error.constructor, kind, inspect(error));
  assert.equal(error.name, kind.contractName);
  assert.notEqual(error.message, "");
  return error;
}

/** Releases the lease. If the table is slow, the function retries, and finds its lease already released. */
async function ends(...leases: Lease[]): Promise<void> {
  for (const lease of leases) assert(["released", "already_released"].includes(await lease.release()));
  for (const lease of leases) {
    const request = { key: lease.key, ttlSeconds: 60, permits: lease.permit > 0 ? 2 : undefined };
    await (await other.acquire(request)).release();
  }
}

const scenes: Record<string, () => Promise<void>> = {
  async acquire_extend_and_release() {
    const lease = await me.acquire({ key: "typescript/plain", ttlSeconds: 60, metadata: { order: "42" } });
    assert.deepEqual([lease.key, lease.holder, lease.permit, lease.previous], ["typescript/plain", "me", 0, null]);
    assert(["new", "replayed"].includes(lease.grant!));
    assert.equal(lease.ttlSeconds, 60);
    assert(lease.remaining() > 0 && lease.remaining() <= 60);
    const [token, until] = [lease.fencingToken, lease.safeUntil];
    assert.equal(await lease.extend({ ttlSeconds: 120 }), "extended");
    assert.deepEqual([lease.fencingToken, lease.ttlSeconds, lease.safeUntil! > until!], [token, 120, true]);
    await ends(lease);
    assert.equal(await lease.release(), "already_released");
  },
  async a_held_key_names_its_holder() {
    const request = { key: "typescript/held", ttlSeconds: 60 };
    const lease = await me.acquire(request);
    const { details } = await throws("LeaseHeld", other.acquire(request));
    assert.deepEqual([details.holder, details.key, details.fencing_token], ["me", request.key, lease.fencingToken]);
    assert(typeof details.retry_at === "string");
    assert.equal((await throws("LeaseHeld", me.acquire(request))).details.by_you, true);
    const inner = await me.acquire({ ...request, reentrant: true });
    assert.deepEqual([inner.grant, inner.fencingToken, await inner.release()], ["reentered", lease.fencingToken, "kept"]);
    await throws("LeaseHeld", other.acquire({ ...request, observedVersion: 0 }));
    const taken = await other.acquire({ ...request, observedVersion: details.version as number });
    assert.deepEqual([taken.previous?.holder, taken.previous?.ended], ["me", "expired"]);
    // Nobody holds it, and it is in a cooldown.
    const paced = { ttlSeconds: 60, atLeastSeconds: 600 };
    const leases = [await me.acquire({ ...paced, key: "typescript/closed" })];
    leases.push(...(await me.acquireAll({ ...paced, keys: ["typescript/closed/another"] })));
    for (const lease of leases) {
      await lease.release();
      let now = Date.now();
      const began = now;
      const waits = new Leasehold(LAMBDA, { ...NAMES, holder: "other", now: () => now, sleep: async (time) => void (now += time) });
      const { details } = await throws("LeaseHeld", waits.acquire({ key: lease.key, ttlSeconds: 60, waitSeconds: 20 }));
      assert(Math.abs(now - began - 20_000) < 1, String(now - began));
      const { opens_at, retry_at, wait_seconds, holder, ...others } = details;
      assert(String(opens_at) < String(retry_at) && Number(wait_seconds) > 590 && Number(wait_seconds) <= 610, inspect(details));
      assert.equal(holder, "me");
      assert(!("expires_at" in others || "ttl_seconds" in others || "lifetime" in others), inspect(details));
    }
  },
  async waiter_asks_until_free_or_late() {
    const key = "typescript/waits";
    const held = await me.acquire({ key, ttlSeconds: 3600 });
    const counted = new Faulty();
    // A clock that goes on only while somebody sleeps; the key is released after half a minute.
    const waiting = (invoker: Invoker, holder: string, release?: Lease): [Leasehold, number[]] => {
      const [slept, began] = [[] as number[], Date.now()];
      const total = (): number => slept.reduce((sum, one) => sum + one, 0);
      const sleep = async (time: number): Promise<void> => {
        slept.push(time);
        if (release !== undefined && total() > 30_000) await release.release();
      };
      return [new Leasehold(invoker, { ...NAMES, holder, sleep, now: () => began + total() }), slept];
    };
    const [waits, slept] = waiting(counted, "other", held);
    const lease = await waits.acquire({ key, ttlSeconds: 3600, waitSeconds: 600 });
    const total = slept.reduce((sum, one) => sum + one, 0);
    assert(total > 30_000 && total <= 40_000 && slept.every((time) => time <= 10_000), String(slept));
    assert.equal(new Set(counted.sent).size, 1, "one request, as often as it asks");
    // No longer than it may, nor than the time that a Lambda function has left, less two seconds.
    for (const [waitSeconds, left, longest] of [[60, undefined, 60], [60, 12_000, 10], [3, 900_000, 3], [5, 1_000, 0]] as const) {
      const [waits, slept] = waiting(LAMBDA, "me");
      const context = left === undefined ? undefined : { getRemainingTimeInMillis: () => left };
      await throws("LeaseHeld", waits.acquire({ key, ttlSeconds: 60, waitSeconds, context }));
      const total = slept.reduce((sum, one) => sum + one, 0);
      assert(Math.abs(total - 1000 * longest) < 1, String(slept));
    }
    await ends(lease);
  },
  async same_request_gets_same_lease() {
    const request = { key: "typescript/replayed", ttlSeconds: 60, requestId: "one" };
    const [first, again] = [await me.acquire(request), await me.acquire(request)];
    assert.equal(again.grant, "replayed");
    assert.deepEqual(again.handle(), first.handle());
    await first.release();
    await throws("LeaseConsumed", me.acquire(request));
  },
  async taken_over_lease_is_lost() {
    const request = { key: "typescript/lost", ttlSeconds: 60 };
    const mine = await me.acquire(request);
    await operate("force_release", request.key);
    const theirs = await other.acquire(request);
    assert.equal(theirs.previous?.ended, "forced");
    assert(["takeover", "replayed"].includes(theirs.grant!));
    assert(theirs.fencingToken > mine.fencingToken);
    await throws("LeaseLost", mine.extend());
    assert.equal(await mine.release(), "lost");
    await throws("LeaseLost", mine.release({ strict: true }));
    assert.equal(await theirs.extend(), "extended");
  },
  async expired_lease_is_refused_or_revived() {
    const event = JSON.parse(readFileSync(`${EVENTS}/extend-expired.json`, "utf8")) as { lease: Handle };
    const lease = me.resume(event.lease);
    assert.equal(lease.remaining(), 0);
    await throws("LeaseExpired", lease.extend({ requireUnexpired: true }));
    assert.equal(await lease.extend(), "revived");
    assert(lease.remaining() > 0);
  },
  async a_malformed_request_names_its_field() {
    const error = await throws("LeaseInvalid", me.acquire({ key: "typescript/invalid", ttlSeconds: 0 }));
    assert.equal(error.details.field, "ttl_seconds");
  },
  async frozen_key_is_granted_to_nobody() {
    await operate("freeze", "typescript/frozen");
    await throws("LeaseFrozen", me.acquire({ key: "typescript/frozen", ttlSeconds: 60 }));
  },
  async permits_are_leases_of_their_own() {
    const request = { key: "typescript/permits", ttlSeconds: 60, permits: 2 };
    const leases = [await me.acquire(request), await me.acquire(request)];
    assert.deepEqual(leases.map((lease) => lease.permit).sort(), [0, 1]);
    await throws("LeaseHeld", other.acquire(request));
    await ends(...leases);
  },
  async several_keys_come_all_or_none() {
    const leases = await me.acquireAll({ keys: ["typescript/a", "typescript/b"], ttlSeconds: 60 });
    assert.deepEqual(leases.map((lease) => [lease.key, lease.previous]), [["typescript/a", null], ["typescript/b", null]]);
    const overlapping = other.acquireAll({ keys: ["typescript/c", "typescript/b"], ttlSeconds: 60 });
    assert.equal((await throws("LeaseHeld", overlapping)).details.key, "typescript/b");
    await other.acquire({ key: "typescript/c", ttlSeconds: 60 });
    for (const lease of leases) assert.equal(await lease.extend(), "extended");
    await ends(...leases);
  },
  async queued_waiter_gets_lease_by_token() {
    const held = await me.acquire({ key: "typescript/queue", ttlSeconds: 60 });
    const holder = "arn:aws:states:us-east-1:123456789012:execution:leasehold_leasing_one:1";
    const waiting = { key: "typescript/queue", waitSeconds: 600, atLeastSeconds: 60, holder };
    const joined = await other.joinQueue({ ...waiting, taskToken: "typescript-1", requestId: "1" });
    assert.equal(joined.outcome, "queued");
    const again = await other.joinQueue({ ...waiting, taskToken: "typescript-2", requestId: "1" });
    assert.equal(again.ticket, joined.ticket);
    await throws("LeaseQueueFull", other.joinQueue({ ...waiting, taskToken: "typescript-3", requestId: "3" }));
    await held.release();
    const calls = (await (await fetch(NOTIFIED!)).json()) as { taskToken: string; output: string }[];
    const output = JSON.parse(calls.find((call) => call.taskToken === "typescript-2")!.output) as { outcome: string; lease: Handle };
    const lease = other.resume(output.lease);
    assert.deepEqual([output.outcome, await lease.extend()], ["acquired", "extended"]);
    assert.equal(await lease.release(), "released");
    const closed = other.acquire({ key: "typescript/queue", ttlSeconds: 60 });
    assert("opens_at" in (await throws("LeaseHeld", closed)).details);
    const key = "typescript/queue/permits";
    await me.acquire({ key, ttlSeconds: 60, permits: 2 });
    const another = { ...waiting, key, permits: 2, taskToken: "typescript-4", requestId: "4" };
    assert.equal((await other.joinQueue(another)).outcome, "acquired");
  },
  async start_begins_or_waits_for_key() {
    const stateMachineArn = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders";
    const execution = stateMachineArn.replace(":stateMachine:", ":execution:");
    const request = { key: "typescript/start", stateMachineArn, input: { order: "42" }, atLeastSeconds: 60 };
    const first = await me.start({ ...request, name: "typescript-1" });
    assert.deepEqual(first, { outcome: "started", executionArn: `${execution}:typescript-1`, held: undefined, by: undefined });
    assert.deepEqual(await me.start({ ...request, name: "typescript-1" }), first);
    assert(await opens("typescript/start"));
    const second = await other.start({ ...request, name: "typescript-2", passLease: true, waitSeconds: 600 });
    assert.deepEqual([second.outcome, second.held?.holder], ["queued", first.executionArn]);
    await throws("LeaseQueueFull", me.start({ ...request, name: "typescript-3" }));
    const { details } = await throws("LeaseHeld", me.start({ ...request, ifHeld: "fail" }));
    assert.equal(details.holder, first.executionArn);
    assert.equal((await me.start({ ...request, name: "typescript-4", ifHeld: "skip" })).outcome, "skipped");
    for (const [name, outcome] of [["typescript-5", "started"], ["typescript-6", "started"], ["typescript-7", "skipped"]]) {
      const shared = { ...request, key: "typescript/shared", name, ifHeld: "skip", permits: 2 } as const;
      assert.equal((await me.start(shared)).outcome, outcome);
    }
    for (const [tenant, outcome] of [["a", "started"], ["b", "queued"]]) {
      const pool = { name: "typescript", permits: 1 };
      const pooled = await me.start({ ...request, key: `typescript/pooled/${tenant}`, name: `typescript-pooled-${tenant}`, pool });
      assert.equal(pooled.outcome, outcome);
    }
    const unlisted = me.start({ ...request, stateMachineArn: stateMachineArn.replace("started", "other") });
    assert.equal((await throws("LeaseInvalid", unlisted)).details.field, "state_machine_arn");
  },
  async start_waits_for_result() {
    const stateMachineArn = "arn:aws:states:us-east-1:123456789012:stateMachine:leasehold_started_orders";
    const start = { key: "typescript/result", name: "typescript-result", stateMachineArn, wait: true };
    const asks = (...answers: Awaited<ReturnType<Describer["describeExecution"]>>[]) => {
      const stepFunctions = { describeExecution: async () => answers.shift() ?? {} };
      return new Leasehold(LAMBDA, { ...NAMES, holder: "me", stepFunctions, sleep: async () => {} });
    };
    const runs = { status: "RUNNING" };
    const waits = asks(runs, runs, { status: "SUCCEEDED", output: '{"made": 1}' });
    assert.deepEqual((await waits.start(start)).output, { made: 1 });
    const stopped = asks({ status: "ABORTED", error: "Mine", cause: "why" });
    await assert.rejects(stopped.start(start), { name: "ExecutionFailed", status: "ABORTED", error: "Mine", cause: "why" });
    await assert.rejects(me.start(start), /stepFunctions/);
  },
  async a_block_releases_however_it_ends() {
    const request = { key: "typescript/block", ttlSeconds: 60 };
    let kept: Lease | undefined;
    const result = await me.withLease(request, async (lease) => {
      kept = lease;
      await throws("LeaseHeld", other.acquire(request));
      return 7;
    });
    assert.equal(result, 7);
    assert.equal(await kept?.release(), "already_released");
    const own = new Error("the block's own");
    await assert.rejects(me.withLease(request, () => Promise.reject(own)), (error) => error === own);
    await assert.rejects(me.withLease(request, () => { throw own; }), (error) => error === own);
    await (await other.acquire(request)).release();
  },
  async block_reports_lost_lease() {
    const request = { key: "typescript/overrun", ttlSeconds: 60 };
    await throws("LeaseLost", me.withLease(request, async () => {
      await operate("force_release", request.key);
      await other.acquire(request);
    }));
  },
  async block_never_begins_after_lease() {
    // The response to the acquire took two hours.
    const late = (invoker: Invoker) => new Leasehold(invoker, { ...NAMES, holder: "me", now: () => Date.now() + 7_200_000 });
    const request = { key: "typescript/late", ttlSeconds: 60 };
    const counted = new Faulty();
    await late(counted).withLease(request, async () => {
      assert.deepEqual(counted.sent.map((sent) => "lease" in (JSON.parse(sent) as object)), [false, true]);
    });
    const taken: Invoker = {
      async invoke(input) {
        const answer = await LAMBDA.invoke(input);
        if (input.FunctionName === NAMES.acquire) await operate("force_release", request.key);
        return answer;
      },
    };
    await throws("LeaseLost", late(taken).withLease(request, () => assert.fail("it has begun")));
  },
  async failed_invocation_is_repeated_unchanged() {
    const request = { key: "typescript/again", ttlSeconds: 60 };
    slept.length = 0;
    const lost: Fault = [true, Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })];
    let faulty = new Faulty([false, refused("TooManyRequestsException", 429)], lost, [true, refused("ServiceException", 500)]);
    const lease = await client("me", faulty).acquire(request);
    assert.deepEqual([lease.grant, faulty.sent.length, new Set(faulty.sent).size], ["replayed", 4, 1]);
    assert(slept.length === 3 && slept.every((time) => time >= 0 && time <= 2000));
    faulty = new Faulty(lost);
    assert.equal(await client("me", faulty).resume(lease.handle()).release(), "already_released");
    const timeout: Fault = [false, Object.assign(new Error("timed out"), { name: "TimeoutError" })];
    faulty = new Faulty(...Array<Fault>(9).fill(timeout));
    const error = await throws("LeaseUnavailable", client("me", faulty, 2).acquire(request));
    assert.deepEqual([faulty.sent.length, error.cause], [2, timeout[1]]);
    faulty = new Faulty(...Array<Fault>(9).fill([false, refused("TooManyRequestsException", 429)]));
    await throws("LeaseThrottled", client("me", faulty).acquire(request));
  },
  async foreign_error_is_sdks_own() {
    const denied = refused("AccessDeniedException", 403);
    const faulty = new Faulty([false, denied]);
    await assert.rejects(client("me", faulty).acquire({ key: "k", ttlSeconds: 60 }), (error) => error === denied);
    assert.equal(faulty.sent.length, 1);
  },
  async lease_does_not_show_secret() {
    const lease = await me.acquire({ key: "typescript/secret", ttlSeconds: 60 });
    const handle = lease.handle();
    for (const shown of [inspect(lease, { showHidden: true, depth: 9 }), JSON.stringify({ lease }), String(lease), inspect(Object.entries(lease))]) {
      assert(!shown.includes(handle.lease_id), shown);
    }
    assert(JSON.stringify(lease).includes("typescript/secret"));
    await ends(me.resume(JSON.parse(JSON.stringify(handle)) as Handle));
  },
  async every_contract_error_has_class() {
    const schema = JSON.parse(readFileSync(`${SCHEMAS}/error.json`, "utf8")) as { properties: { errorType: { oneOf: { const: string }[] } } };
    const names = schema.properties.errorType.oneOf.map((one) => one.const);
    assert.deepEqual([...names].sort(), [...ERRORS.keys()].sort());
    const failing = (errorType: string, errorMessage: string): Invoker => ({
      invoke: async () => ({ FunctionError: "Unhandled", Payload: new TextEncoder().encode(JSON.stringify({ errorType, errorMessage })) }),
    });
    const request = { key: "k", ttlSeconds: 60 };
    for (const name of names) {
      const message = { message: `what ${name} says`, key: "k", field: "f" };
      const invoker = failing(name, JSON.stringify(message));
      const error = await throws(name.replace(".", "") as keyof typeof leasehold, client("me", invoker).acquire(request));
      assert.deepEqual([error.name, error.message, error.details], [name, message.message, message]);
    }
    const killed = failing("Sandbox.Timedout", "Task timed out after 10.00 seconds");
    assert.match((await throws("LeaseUnavailable", client("me", killed).acquire(request))).message, /Sandbox.Timedout/);
  },
  async what_each_version_answered_is_understood() {
    const versions = readdirSync(GOLDEN!);
    assert.notEqual(versions.length, 0);
    for (const version of versions) {
      const invocations = JSON.parse(readFileSync(`${GOLDEN}/${version}/answers.json`, "utf8")) as Invocation[];
      const understood: string[] = [];
      for (const invocation of invocations) {
        if (invocation.function in NAMES) understood.push(await understand(invocation));
      }
      for (const kind of ["lease", "leases", "revived", "released", "Lease.Held"]) assert(understood.includes(kind), kind);
    }
  },
  async guarded_write_refuses_smaller_token() {
    const call = async (operation: string, input: object) => {
      const headers = {
        ...SIGNED,
        "x-amz-target": `DynamoDB_20120810.${operation}`,
        "content-type": "application/x-amz-json-1.0",
        "x-amz-date": "20261121T030000Z",
        authorization: "AWS4-HMAC-SHA256 Credential=local/20261121/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
      };
      const answer = await fetch(AWS_ENDPOINT_URL_DYNAMODB!, { method: "POST", headers, body: JSON.stringify(input) });
      return (await answer.json()) as Record<string, unknown>;
    };
    const write = (token: number, status: string) => {
      const guard = fence(token);
      return call("UpdateItem", {
        TableName: "orders",
        Key: { pk: { S: "typescript" } },
        UpdateExpression: `SET ${guard.assignment}, #status = :status`,
        ConditionExpression: guard.condition,
        ExpressionAttributeNames: { ...guard.names, "#status": "status" },
        ExpressionAttributeValues: { ...guard.typedValues, ":status": { S: status } },
      });
    };
    for (const [token, status] of [[1795230000125, "first"], [1795230000131, "second"], [1795230000131, "second again"]] as const) {
      assert.deepEqual(await write(token, status), {});
    }
    assert.match(String((await write(1795230000130, "late")).__type), /ConditionalCheckFailedException/);
    const { Item } = await call("GetItem", { TableName: "orders", Key: { pk: { S: "typescript" } } });
    assert.deepEqual(Item, { pk: { S: "typescript" }, fence: { N: "1795230000131" }, status: { S: "second again" } });
    assert.deepEqual(fence(7).values, { ":fencing_token": 7 });
  },
};

/** What a version was asked, and what it answered. */
interface Invocation {
  function: keyof typeof NAMES;
  event: Record<string, unknown>;
  answer?: Record<string, unknown>;
  error?: string;
  message?: Record<string, unknown>;
}

/** Gets an answer that was recorded, and returns what it was. */
async function understand({ function: name, event, answer, error, message }: Invocation): Promise<string> {
  const body = answer ?? { errorType: error, errorMessage: JSON.stringify(message) };
  const response = { Payload: new TextEncoder().encode(JSON.stringify(body)) };
  const asking = client("me", { invoke: async () => (answer === undefined ? { ...response, FunctionError: "Unhandled" } : response) });
  if (answer === undefined) {
    const { details } = await throws(error!.replace(".", "") as keyof typeof leasehold, asking.call(name, event));
    assert.deepEqual(details, message);
    return error!;
  }
  if (name === "acquire" && "lease" in answer) {
    const lease = await asking.acquire({ key: event.key as string, ttlSeconds: 60 });
    assert.deepEqual([lease.handle(), lease.grant, lease.previous], [answer.lease, answer.grant, answer.previous]);
    return "lease";
  }
  if (name === "acquire" && "leases" in answer) {
    const leases = await asking.acquireAll({ keys: event.keys as string[], ttlSeconds: 60 });
    assert.deepEqual(leases.map((lease) => lease.handle()), answer.leases);
    return "leases";
  }
  if (name !== "acquire" && "lease" in event) {
    const lease = asking.resume(event.lease as Handle);
    assert.equal(name === "extend" ? await lease.extend() : await lease.release(), answer.outcome);
    return answer.outcome as string;
  }
  assert.deepEqual(await asking.call(name, event), answer);
  return "another";
}

/** Whether the function runs before the failure, and the failure. */
type Fault = [boolean, Error];

/** An invoker whose first calls fail. */
class Faulty implements Invoker {
  sent: string[] = [];
  #faults: Fault[];
  constructor(...faults: Fault[]) {
    this.#faults = faults;
  }
  async invoke(input: { FunctionName: string; Payload: Uint8Array }) {
    this.sent.push(new TextDecoder().decode(input.Payload));
    const fault = this.#faults.shift();
    if (fault === undefined) return LAMBDA.invoke(input);
    if (fault[0]) await LAMBDA.invoke(input);
    throw fault[1];
  }
}

for (const [name, scene] of Object.entries(scenes)) {
  await scene();
  console.log("ok", name);
}
